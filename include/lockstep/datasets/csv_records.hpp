// Tables that are too large to be held in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/datasets/csv.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A column of a table as an element of a sample.
struct CsvColumn {
  std::string name;                           ///< as in the first line; "0", "1", ... without names
  std::optional<double> missing = {};         ///< for an empty field, which is an error without
  std::optional<Vocabulary> vocabulary = {};  ///< the column has categories: their numbers in it
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
  /// read, has no such column, or a record with another number of fields; ConfigurationError
  /// without features.
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
  [[nodiscard]] double value(const CsvColumn& column, const std::string& field,
                             std::uint64_t line) const;

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
template <class Reader = CsvRecordsReader>
[[nodiscard]] auto from_csv(std::vector<std::string> paths, CsvRecordsOptions options) {
  return from_files(std::move(paths), Reader{std::move(options)});
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/csv_records.ipp"
#endif
