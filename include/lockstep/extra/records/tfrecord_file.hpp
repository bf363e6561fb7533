// TFRecordFile: the records of a file, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// An uncompressed TFRecord file. Keeps the places of its records (8 bytes each) and no record:
/// these are read where they are wanted. Copies share the places. Everything throws DataError,
/// naming the file, the record and the offset where it begins, when the file cannot be read, is cut
/// off, or a checksum does not fit.
/// @code
/// const lockstep::TFRecordFile file("train.tfrecord");
/// lockstep::TFRecordFile::Reader reader(file);
/// for (std::int64_t i = 0; i < file.size(); ++i) use(lockstep::ExampleView(reader.read(i)));
/// @endcode
class TFRecordFile {
 public:
  /// Reads the sizes of all records, and their checksums.
  explicit TFRecordFile(std::string path);

  /// Number of records.
  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(offsets_->size()) - 1;
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Where a record begins, in bytes.
  [[nodiscard]] std::uint64_t offset(std::int64_t record) const {
    return (*offsets_)[static_cast<std::size_t>(record)];
  }
  /// "'train.tfrecord': record 17, at offset 1234"
  [[nodiscard]] std::string name_of(std::int64_t record) const;

  /// Has the file open. One thread at a time.
  class Reader {
   public:
    /// `file` must outlive it.
    explicit Reader(const TFRecordFile& file);
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader();

    /// The bytes of a record, until the next call.
    [[nodiscard]] std::span<const std::byte> read(std::int64_t record);

   private:
    const TFRecordFile& file_;
    int descriptor_;
    std::vector<std::byte> buffer_;
  };

 private:
  std::string path_;
  std::shared_ptr<const std::vector<std::uint64_t>> offsets_;  // the last one is the file's end
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/records/tfrecord_file.ipp"
#endif
