// TFRecordWriter, and the frame of a record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/growing_file.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/records/tfrecord_writer.ipp"
#endif
