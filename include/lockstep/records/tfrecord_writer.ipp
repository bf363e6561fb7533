#pragma once

#include <utility>

#include "lockstep/records/framing.hpp"
#include "lockstep/records/tfrecord_file.hpp"
#include "lockstep/records/tfrecord_writer.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE TFRecordWriter::TFRecordWriter(std::string path, Mode mode)
    : file_(std::move(path)) {
  if (mode == Mode::replace)
    file_.truncate(0);
  else if (file_.size() > 0)
    (void)TFRecordFile(file_.path());
}

LOCKSTEP_INLINE TFRecordWriter::TFRecordWriter(std::string path, std::uint64_t size)
    : file_(std::move(path)) {
  file_.truncate(size);
}

LOCKSTEP_INLINE void TFRecordWriter::write(std::span<const std::byte> record) {
  put(detail::record_head(record.size()));
  put(record);
  put(detail::record_tail(record));
}
LOCKSTEP_INLINE void TFRecordWriter::write(std::string_view record) {
  write(std::as_bytes(std::span(record)));
}

LOCKSTEP_INLINE void TFRecordWriter::put(std::span<const std::byte> bytes) {
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace lockstep::inline LOCKSTEP_ABI
