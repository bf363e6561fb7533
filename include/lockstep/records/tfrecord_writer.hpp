// TFRecordWriter: files of records, as TensorFlow writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/records/framing.hpp"
#include "lockstep/records/growing_file.hpp"
#include "lockstep/records/tfrecord_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Writes records, uncompressed, which tf.data.TFRecordDataset and from_tfrecords read. All but the
/// destructor throw Error naming the file. One thread at a time.
/// @code
/// lockstep::TFRecordWriter writer("train.tfrecord");
/// writer.write(lockstep::Example().ints("label", {7}).floats("image", pixels));
/// writer.close();
/// @endcode
class TFRecordWriter {
 public:
  enum class Mode {
    replace,  ///< what the file has is thrown away
    append,   ///< the records come behind those that it has, which must be whole
  };

  /// Makes the file, and missing parent folders. To append to records of which the last is cut
  /// off, or one is damaged, is refused: no reader would get past it (DataError, as TFRecordFile).
  explicit TFRecordWriter(std::string path, Mode mode = Mode::replace) : file_(std::move(path)) {
    if (mode == Mode::replace)
      file_.truncate(0);
    else if (file_.size() > 0)
      (void)TFRecordFile(file_.path());
  }
  /// Goes on behind the first `size` bytes of a file, a whole number of records, and throws away
  /// what follows them.
  TFRecordWriter(std::string path, std::uint64_t size) : file_(std::move(path)) {
    file_.truncate(size);
  }

  void write(std::span<const std::byte> record) {
    put(detail::record_head(record.size()));
    put(record);
    put(detail::record_tail(record));
  }
  void write(std::string_view record) { write(std::as_bytes(std::span(record))); }
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
  void put(std::span<const std::byte> bytes) {
    file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  detail::GrowingFile file_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
