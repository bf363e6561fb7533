#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

[[noreturn, gnu::cold]] inline void refuse_records(const std::string& path, std::string_view what) {
  throw DataError(concat({in_quotes(path), ": ", what}));
}

LOCKSTEP_INLINE int open_records(const std::string& path) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a FIFO
  if (descriptor < 0) refuse_records(path, concat({"cannot be opened: ", std::strerror(errno)}));
  return descriptor;
}

/// As many of the bytes at `offset` as there are.
LOCKSTEP_INLINE std::size_t read_bytes_at(int descriptor, const std::string& path,
                                          std::uint64_t offset, std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got =
        ::pread(descriptor, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      refuse_records(path,
                     concat({"cannot be read at offset ", offset, ": ", std::strerror(errno)}));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

/// Walks from head to head; a window of the file spares a system call for each small record.
LOCKSTEP_INLINE std::vector<std::uint64_t> record_offsets(int descriptor, const std::string& path,
                                                          std::uint64_t size) {
  std::vector<std::uint64_t> offsets = {0};
  std::vector<std::byte> window(std::size_t{1} << 16);
  std::uint64_t window_begin = 0;
  std::size_t window_size = 0;
  for (std::uint64_t at = 0; at < size;) {
    const auto refuse = [&](std::string_view what) {
      refuse_records(path, concat({"record ", offsets.size() - 1, ", at offset ", at, ": ", what}));
    };
    if (size - at < record_head_size)
      refuse(concat({"the file is cut off: expected a head of ", record_head_size, " bytes, got ",
                     size - at}));
    if (at + record_head_size > window_begin + window_size) {
      window_begin = at;
      window_size = read_bytes_at(descriptor, path, at, window);
      if (window_size < record_head_size) refuse("the file has become shorter while it is read");
    }
    const std::byte* const head = window.data() + (at - window_begin);
    if (masked_crc32c({head, 8}) != get_number<4>(head + 8))
      refuse(
          at == 0 && (head[0] == std::byte{0x1F} || head[0] == std::byte{0x78})
              ? "the checksum of its size does not fit: the file is compressed (decompress it "
                "first), or no TFRecord file"
              : concat(
                    {"the checksum of its size does not fit: the file is damaged, or no TFRecord "
                     "file",
                     at == 0 ? format_note({reinterpret_cast<const char*>(head), window_size})
                             : ""}));
    const std::uint64_t data = get_number<8>(head);
    const std::uint64_t room = size - at - record_head_size;
    if (data > room || room - data < record_tail_size)
      refuse(concat({"the file is cut off: expected ", data, " bytes of data and ",
                     record_tail_size, " of checksum, got ", room}));
    at += record_head_size + data + record_tail_size;
    offsets.push_back(at);
  }
  offsets.shrink_to_fit();
  return offsets;
}

struct OpenRecords {
  int descriptor;
  ~OpenRecords() { ::close(descriptor); }
};

}  // namespace detail

LOCKSTEP_INLINE TFRecordFile::TFRecordFile(std::string path) : path_(std::move(path)) {
  const detail::OpenRecords open{detail::open_records(path_)};
  struct stat status {};
  if (::fstat(open.descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    detail::refuse_records(path_, "is no regular file");
  offsets_ = std::make_shared<const std::vector<std::uint64_t>>(
      detail::record_offsets(open.descriptor, path_, static_cast<std::uint64_t>(status.st_size)));
}

LOCKSTEP_INLINE std::string TFRecordFile::name_of(std::int64_t record) const {
  return concat({in_quotes(path_), ": record ", record, ", at offset ", offset(record)});
}

LOCKSTEP_INLINE TFRecordFile::Reader::Reader(const TFRecordFile& file)
    : file_(file), descriptor_(detail::open_records(file.path())) {}

LOCKSTEP_INLINE TFRecordFile::Reader::~Reader() { ::close(descriptor_); }

LOCKSTEP_INLINE std::span<const std::byte> TFRecordFile::Reader::read(std::int64_t record) {
  const std::uint64_t begin = file_.offset(record) + detail::record_head_size;
  const auto size =
      static_cast<std::size_t>(file_.offset(record + 1) - begin);  // with the checksum
  if (buffer_.size() < size) buffer_.resize(size);
  const std::size_t got =
      detail::read_bytes_at(descriptor_, file_.path(), begin, std::span(buffer_).first(size));
  if (got < size)
    throw DataError(concat({file_.name_of(record), ": the file has become shorter: expected ", size,
                            " bytes, got ", got}));
  const auto data = std::span<const std::byte>(buffer_).first(size - detail::record_tail_size);
  const auto stored =
      static_cast<std::uint32_t>(detail::get_number<4>(buffer_.data() + data.size()));
  const std::uint32_t computed = detail::masked_crc32c(data);
  if (computed != stored)
    throw DataError(concat({file_.name_of(record), ": the checksum of its ", data.size(),
                            " bytes of data does not fit: the file has ", stored,
                            ", the data have ", computed, ": the file is damaged"}));
  return data;
}

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

}}  // namespace lockstep
