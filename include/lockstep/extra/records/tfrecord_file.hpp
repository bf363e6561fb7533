// TFRecord files: their format, reading and writing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/growing_file.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

namespace detail {

/// A record is its size as 8 bytes, their masked CRC, the data, and the masked CRC of the data; all
/// numbers little-endian (tensorflow/core/lib/io/record_writer.h).
inline constexpr std::size_t record_head_size = 12;
inline constexpr std::size_t record_tail_size = 4;

/// The CRC-32C in the form in which it is stored beside what it protects.
[[nodiscard]] std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept;

/// What stands in front of a record of `size` bytes.
[[nodiscard]] std::array<std::byte, record_head_size> record_head(std::uint64_t size) noexcept;

/// What stands behind it.
[[nodiscard]] std::array<std::byte, record_tail_size> record_tail(
    std::span<const std::byte> data) noexcept;

}  // namespace detail

/// Writes records, uncompressed, which tf.data.TFRecordDataset and from_tfrecords read. All but the
/// destructor throw Error naming the file. One thread at a time.
/// @code
/// lockstep::TFRecordWriter writer("train.tfrecord");
/// writer.write(lockstep::Example().ints("label", {7}).floats("image", pixels));
/// writer.close();
/// @endcode
/// Include <lockstep/extra/records.hpp>.
/// Use: `TFRecordWriter("out.tfrecord")`. Keras: `tf.io.TFRecordWriter`.
class TFRecordWriter {
 public:
  enum class Mode {
    replace,  ///< what the file has is thrown away
    append,   ///< the records come behind those that it has, which must be whole
  };

  /// Makes the file, and missing parent folders. To append to records of which the last is cut
  /// off, or one is damaged, is refused: no reader would get past it (DataError, as TFRecordFile).
  explicit TFRecordWriter(std::string path, Mode mode = Mode::replace);
  /// Goes on behind the first `size` bytes of a file, a whole number of records, and throws away
  /// what follows them.
  TFRecordWriter(std::string path, std::uint64_t size);

  void write(std::span<const std::byte> record);
  void write(std::string_view record);
  /// Anything that has `serialize()`: an Example.
  template <class Message>
    requires requires(const Message& message) { std::string_view(message.serialize()); }
  void write(const Message& message) {
    write(std::string_view(message.serialize()));
  }

  /// Hands everything to the operating system.
  void flush() { file_.flush(); }
  /// Flushes and closes; a full disk may be noticed here. Nothing else may be called after it.
  void close() { file_.close(); }

  /// Bytes written so far, those of an older file included.
  [[nodiscard]] std::uint64_t size() const noexcept { return file_.size(); }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  void put(std::span<const std::byte> bytes);

  detail::GrowingFile file_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/records/tfrecord_file.ipp"
#endif
