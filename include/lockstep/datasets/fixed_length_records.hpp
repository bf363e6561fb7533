// Files of records of one length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/datasets/mapped_file.hpp"
#include "lockstep/datasets/parsed_records.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct FixedLengthRecordsOptions {
  std::size_t record_bytes = 0;
  SampleSizes sizes{};           ///< of what f makes of a record
  std::size_t header_bytes = 0;  ///< before the first record
  std::size_t footer_bytes = 0;  ///< behind the last one
};

/// The records of a file. The system reads the parts of the file that are asked for. Copies share
/// the file, which must not become shorter meanwhile.
class RecordFile {
 public:
  /// Throws ConfigurationError for a record_bytes of 0, DataError when the file cannot be read or
  /// has no whole number of records.
  RecordFile(const std::string& path, const FixedLengthRecordsOptions& options);

  [[nodiscard]] std::size_t size() const noexcept { return records_.size() / record_bytes_; }
  [[nodiscard]] std::span<const std::uint8_t> operator[](std::size_t i) const noexcept;

 private:
  std::shared_ptr<const detail::MappedFile> file_;
  std::size_t record_bytes_;
  std::span<const std::uint8_t> records_;
};

/// Sample i is what `f(std::span<const std::uint8_t> record, Sample<T>& sample)` makes of record i:
/// see ParsedRecords.
template <class F>
class FixedLengthRecords : public detail::ParsedRecords<RecordFile, F> {
 public:
  FixedLengthRecords(const std::string& path, F f, const FixedLengthRecordsOptions& options)
      : detail::ParsedRecords<RecordFile, F>(RecordFile(path, options), std::move(f),
                                             options.sizes) {}
  void describe(PipelineDescription& description) const {
    description.add({"from_fixed_length_records"});
  }
};

/// A pipeline of the records of files (tf.data's FixedLengthRecordDataset); with
/// AutoShardPolicy::file each worker reads its own. CIFAR-10's files, of which load_cifar10 holds
/// all in memory, as a stream:
/// @code
/// from_fixed_length_records({"data_batch_1.bin"}, [](auto record, auto& sample) {
///   sample.y[0] = record[0];
///   for (std::size_t i = 0; i < 3'072; ++i) sample.x[i % 1'024 * 3 + i / 1'024] = record[1 + i];
/// }, {.record_bytes = 3'073, .sizes = {.sample_size = 3'072, .target_size = 1}})
/// @endcode
/// IDX files are two of these: zip of the images (16 bytes of header, 784 of a record for MNIST)
/// and of the labels (8 and 1).
/// Use: `from_fixed_length_records({"data.bin"}, [](auto record, auto& sample) { sample.x[0] =
/// record[0]; }, {.record_bytes = 4, .sizes = {.sample_size = 1, .target_size = 0}})`. Keras:
/// `FixedLengthRecordDataset`.
template <class F>
[[nodiscard]] auto from_fixed_length_records(std::vector<std::string> paths, F f,
                                             FixedLengthRecordsOptions options) {
  return from_files(std::move(paths), [f, options](const std::string& path) {
    return FixedLengthRecords<F>(path, f, options);
  });
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/fixed_length_records.ipp"
#endif
