#pragma once

#include <bit>
#include <utility>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"
#include "lockstep/extra/records/tfrecord_writer.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

LOCKSTEP_INLINE std::array<std::byte, record_head_size> record_head(std::uint64_t size) noexcept {
  std::array<std::byte, record_head_size> head{};
  put_number<8>(head.data(), size);
  put_number<4>(head.data() + 8, masked_crc32c(std::span(head).first<8>()));
  return head;
}

LOCKSTEP_INLINE std::array<std::byte, record_tail_size> record_tail(
    std::span<const std::byte> data) noexcept {
  std::array<std::byte, record_tail_size> tail{};
  put_number<4>(tail.data(), masked_crc32c(data));
  return tail;
}

}  // namespace detail

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
