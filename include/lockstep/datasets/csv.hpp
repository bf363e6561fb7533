// CSV files: read whole, or record by record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct CsvOptions {
  char separator = ',';
  /// The first line has the columns' names, without the blanks around them; else they are "0", "1",
  /// ...
  bool header = true;
  /// The fields, without the blanks around them, that stand for a missing number. (Of categories,
  /// the empty text alone is missing: "NA" may be Namibia.)
  std::vector<std::string> missing_values = {"", "NA", "NaN", "nan"};
};

/// The texts that a column of categories may have, and their numbers: 1, 2, ... in the order of the
/// texts' bytes; 0 is any other text and a missing one. Its size is what Embedding wants to know,
/// and where the column is the label, the last Dense: `Vocabulary({"cat", "dog", "owl"})` are four
/// numbers, 0 to 3. CsvTable::vocabulary makes one of all texts of a column.
/// (Keras's StringLookup numbers the most frequent text first, and is in extra/text.)
/// Use: `Vocabulary({"red", "green"})`. Keras: none (pandas' `.cat.codes`).
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Sorts the texts; empty ones and repetitions do not count.
  explicit Vocabulary(std::vector<std::string> texts);

  /// How many numbers there are, 0 included.
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size() + 1; }
  [[nodiscard]] std::size_t number(std::string_view text) const;
  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  std::vector<std::string> texts_;
};

namespace detail {

/// What the readers of tables know of one beside its records: the same for all.
struct CsvHeader {
  std::string name;  ///< of the errors
  CsvOptions options;
  std::vector<std::string> columns = {};
  std::string hint = {};  ///< for errors: when the separator seems to be a different one

  /// Throws DataError for a text of a known kind that is no table, ConfigurationError for a
  /// separator that cannot be one.
  void check_text(std::string_view text) const;
  /// Takes the first record, empty where there is none. Throws DataError for that, and for two
  /// columns of one name.
  void begin(const std::vector<std::string>& record, std::uint64_t line);
  /// Throws DataError for a record with another number of fields than columns.
  void check(const std::vector<std::string>& record, std::uint64_t line) const;
  /// The number of a column. Throws DataError, with the columns that there are.
  [[nodiscard]] std::size_t find(std::string_view column) const;
  /// A field as a number. Throws DataError for one that is no finite number and, without `missing`,
  /// for a missing one.
  [[nodiscard]] double number(std::string_view field, std::string_view column, std::uint64_t line,
                              std::optional<double> missing) const;
};

}  // namespace detail

/// A table, held in memory as text. Any number of threads may read it.
/// Use: `CsvTable("a,b\n1,2\n", "table.csv")`. Keras: none (pandas).
class CsvTable {
 public:
  /// `text` in the form of RFC 4180: fields in quotes may have separators, line ends and "" for a
  /// quote. Lines end with LF or CR LF. Empty lines are left out, and so is a byte order mark of
  /// UTF-8 at the beginning of a line. Errors call the table `name`. Throws DataError, naming the
  /// line, for a record with another number of fields than the first line, for quotes in the wrong
  /// place, for two columns of one name, and for data that are no text or in UTF-16;
  /// ConfigurationError for a separator that cannot be one.
  CsvTable(std::string_view text, std::string name, CsvOptions options = {});

  /// How many rows there are, without the line of names.
  [[nodiscard]] std::size_t rows() const noexcept { return lines_.size(); }
  /// The names of the columns, in their order.
  [[nodiscard]] const std::vector<std::string>& columns() const noexcept { return header_.columns; }

  /// The fields of a column. Throws DataError, with the columns that there are, for an unknown
  /// name.
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view column) const;
  /// As numbers, blanks around them left out: "-2.5e1", "+1.5", ".5"; what is too small for a
  /// double becomes 0. One of CsvOptions::missing_values becomes `missing`. Throws DataError,
  /// naming line and column, for a field that is no finite number and, without `missing`, for a
  /// missing one.
  [[nodiscard]] std::vector<double> numbers(std::string_view column,
                                            std::optional<double> missing = {}) const;
  /// All texts that a column of categories has, numbered from 1.
  [[nodiscard]] Vocabulary vocabulary(std::string_view column) const {
    return Vocabulary(texts(column));
  }
  /// As their numbers in a vocabulary, which may be that of another table.
  [[nodiscard]] std::vector<double> categories(std::string_view column,
                                               const Vocabulary& vocabulary) const;

 private:
  detail::CsvHeader header_;
  std::vector<std::vector<std::string>> fields_;  // [column][row]
  std::vector<std::uint64_t> lines_;              // where each row begins, from 1
};

/// Reads a whole file. Throws DataError as CsvTable does, and when it cannot be read.
/// Use: `read_csv("table.csv")`. Keras: none (`pandas.read_csv`).
[[nodiscard]] CsvTable read_csv(const std::string& path, CsvOptions options = {});

/// What makes several numbers of a text: any function object f with a constant `output_size` and
/// `f(std::string_view text, std::span<double> numbers)`, as a TextVectorization is. What its
/// `description()` says, if it has one, is compared between workers. Several threads may call it.
class CsvText {
 public:
  template <class F>
    requires requires { F::output_size; }
  CsvText(F f) : size_(F::output_size) {
    if constexpr (requires { f.description(); }) description_ = f.description();
    write_ = std::move(f);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  void operator()(std::string_view text, std::span<double> numbers) const { write_(text, numbers); }

 private:
  std::size_t size_;
  std::string description_;
  std::function<void(std::string_view, std::span<double>)> write_;
};

/// A column of a table as an element of a sample, or with `text` as several.
struct CsvColumn {
  std::string name;                           ///< as in the first line; "0", "1", ... without names
  std::optional<double> missing = {};         ///< for a missing number, which is an error without
  std::optional<Vocabulary> vocabulary = {};  ///< the column has categories: their numbers in it
  std::optional<CsvText> text = {};           ///< the column has texts: their numbers
};

struct CsvRecordsOptions {
  std::vector<CsvColumn> features;      ///< the elements of a sample
  std::vector<CsvColumn> targets = {};  ///< those of its target
  CsvOptions csv = {};
};

/// A file of comma-separated values in the form that CsvTable reads; sample i is record i. Only the
/// place of each record is kept; the system reads the parts of the file that are asked for. Copies
/// share the file, which must not become shorter meanwhile.
class CsvRecords {
 public:
  /// Goes through the whole file once. Throws DataError, naming file and line, when it cannot be
  /// read, has no such column, or for what CsvTable refuses; ConfigurationError without features,
  /// and for a separator that cannot be one.
  CsvRecords(const std::string& path, CsvRecordsOptions options);

  [[nodiscard]] std::int64_t size() const noexcept;
  [[nodiscard]] std::size_t sample_size() const noexcept;
  [[nodiscard]] std::size_t target_size() const noexcept;
  void describe(PipelineDescription& description) const;
  /// Throws DataError, naming line and column, for a field that is no finite number.
  void read(std::span<const std::int64_t> indices, TensorView<float> x, TensorView<float> y) const;
  void read(std::span<const std::int64_t> indices, TensorView<double> x,
            TensorView<double> y) const;

 private:
  struct Index;

  template <class T>
  void read_records(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const;
  /// Writes the numbers of a record's columns, from the given one on.
  template <class T>
  void write(const std::vector<CsvColumn>& columns, std::size_t first,
             const std::vector<std::string>& record, std::size_t row, std::size_t i,
             TensorView<T> view) const;

  std::shared_ptr<const Index> index_;
};

/// The reader of from_csv.
struct CsvRecordsReader {
  CsvRecordsOptions options;
  [[nodiscard]] CsvRecords operator()(const std::string& path) const;
};

/// A pipeline of the records of files; with AutoShardPolicy::file each worker reads its own.
/// @code
/// from_csv({"a.csv", "b.csv"}, {.features = {{"age", 0.0}, {"fare"}}, .targets = {{"survived"}}})
/// @endcode
/// Use: `from_csv({"a.csv"}, {.features = {{"age", 0.0}, {"fare"}}, .targets = {{"survived"}}})`.
/// Keras: `experimental.make_csv_dataset`.
template <class Reader = CsvRecordsReader>
[[nodiscard]] auto from_csv(std::vector<std::string> paths, CsvRecordsOptions options) {
  return from_files(std::move(paths), Reader{std::move(options)});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/csv.ipp"
#endif
