// Tables in files of comma-separated values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct CsvOptions {
  char separator = ',';
  bool header = true;  ///< the first line has the columns' names; else they are "0", "1", ...
};

/// The texts that a column of categories may have, and their numbers: 1, 2, ... in the order of the
/// texts' bytes; 0 is any other text and a missing one. Its size is what Embedding wants to know.
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

/// A table, held in memory as text. Any number of threads may read it.
class CsvTable {
 public:
  /// `text` in the form of RFC 4180: fields in quotes may have separators, line ends and "" for a
  /// quote. Lines end with LF or CR LF; empty ones are left out. `name` is that of the errors.
  /// Throws DataError, naming the line, for a record with another number of fields than the first
  /// line, and for quotes in the wrong place.
  CsvTable(std::string_view text, std::string name, CsvOptions options = {});

  [[nodiscard]] std::size_t rows() const noexcept { return lines_.size(); }
  [[nodiscard]] const std::vector<std::string>& columns() const noexcept { return columns_; }

  /// The fields of a column. Throws DataError, with the columns that there are, for an unknown
  /// name.
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view column) const;
  /// As numbers. An empty field becomes `missing`. Throws DataError, naming line and column, for a
  /// field that is no finite number and, without `missing`, for an empty one.
  [[nodiscard]] std::vector<double> numbers(std::string_view column,
                                            std::optional<double> missing = {}) const;
  /// All that a column of categories has.
  [[nodiscard]] Vocabulary vocabulary(std::string_view column) const {
    return Vocabulary(texts(column));
  }
  /// As their numbers in a vocabulary, which may be that of another table.
  [[nodiscard]] std::vector<double> categories(std::string_view column,
                                               const Vocabulary& vocabulary) const;

 private:
  [[nodiscard]] std::size_t find(std::string_view column) const;

  std::string name_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> fields_;  // [column][row]
  std::vector<std::uint64_t> lines_;              // where each row begins, from 1
};

/// Reads a whole file. Throws DataError as CsvTable does, and when it cannot be read.
[[nodiscard]] CsvTable read_csv(const std::string& path, CsvOptions options = {});

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/csv.ipp"
#endif
