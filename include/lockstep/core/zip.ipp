#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/zip.hpp"

// The records of a zip file (PKWARE's APPNOTE, 4.3): for each file a local header with its name and
// its data; then the directory, an entry for each file; then the end record, with a comment of up
// to 64 KiB behind it. All sizes are taken from the directory, because local headers may leave them
// open.
namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::uint32_t zip_local_mark = 0x04034b50, zip_directory_mark = 0x02014b50,
                               zip_end_mark = 0x06054b50;
inline constexpr std::size_t zip_local_size = 30, zip_directory_size = 46, zip_end_size = 22;
// in place of a size or an offset: it stands elsewhere
inline constexpr std::uint64_t zip64_mark = 0xFFFFFFFF;

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_zip(std::string_view why) {
  throw DataError(concat({"zip: ", why}));
}

LOCKSTEP_INLINE std::string_view zip_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Where the end record begins.
LOCKSTEP_INLINE std::size_t find_zip_end(std::span<const std::byte> zip) {
  if (zip.size() >= zip_end_size) {
    const std::size_t last = zip.size() - zip_end_size;
    for (std::size_t comment = 0; comment <= std::min<std::size_t>(last, 0xFFFF); ++comment) {
      const std::byte* const record = zip.data() + last - comment;
      if (get_number(record, 4) == zip_end_mark && get_number(record + 20, 2) == comment)
        return last - comment;
    }
  }
  refuse_zip(concat({"these ", zip.size(), " bytes are no zip file, or one that is cut off"}));
}

/// Completes an entry: the data behind its local header, which begins at `offset`. Returns where
/// the data end.
LOCKSTEP_INLINE std::size_t locate_zip_data(std::span<const std::byte> files, std::uint64_t offset,
                                            std::uint64_t size, ZipEntry& entry) {
  if (offset > files.size() || files.size() - offset < zip_local_size)
    refuse_zip(concat({"entry ", in_quotes(entry.name), " lies behind the end"}));
  const std::span<const std::byte> local = files.subspan(static_cast<std::size_t>(offset));
  const std::uint64_t name_size = get_number(local.data() + 26, 2);
  const std::uint64_t head = zip_local_size + name_size + get_number(local.data() + 28, 2);
  if (get_number(local.data(), 4) != zip_local_mark || head > local.size() ||
      size > local.size() - head)
    refuse_zip(concat({"entry ", in_quotes(entry.name), " is damaged or cut off"}));
  if (zip_text(local.subspan(zip_local_size, static_cast<std::size_t>(name_size))) != entry.name)
    refuse_zip(concat({"entry ", in_quotes(entry.name), " has another name in its own header"}));
  entry.data = local.subspan(static_cast<std::size_t>(head), static_cast<std::size_t>(size));
  return static_cast<std::size_t>(offset + head + size);
}

LOCKSTEP_INLINE std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> zip) {
  const std::size_t end_at = find_zip_end(zip);
  const std::byte* const end = zip.data() + end_at;
  const std::uint64_t count = get_number(end + 10, 2);
  const std::uint64_t directory_size = get_number(end + 12, 4),
                      directory_at = get_number(end + 16, 4);
  if (get_number(end + 4, 4) != 0 || get_number(end + 8, 2) != count)
    refuse_zip("the file is one of several parts");
  if (count == 0xFFFF || directory_size == zip64_mark || directory_at == zip64_mark)
    refuse_zip(
        "the file is a zip64 file, with 4 GiB or 65,535 entries and more, which are not supported");
  if (directory_at + directory_size != end_at)
    refuse_zip("the directory is not where the end record says");

  const std::span<const std::byte> files = zip.first(static_cast<std::size_t>(directory_at));
  std::span<const std::byte> directory =
      zip.subspan(files.size(), static_cast<std::size_t>(directory_size));
  std::vector<ZipEntry> entries;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.size() < zip_directory_size ||
        get_number(directory.data(), 4) != zip_directory_mark)
      refuse_zip(concat({"entry ", i, " of the directory is damaged"}));
    const std::byte* const record = directory.data();
    const std::size_t name_size = get_number(record + 28, 2);
    const std::size_t record_size =
        zip_directory_size + name_size + get_number(record + 30, 2) + get_number(record + 32, 2);
    if (record_size > directory.size())
      refuse_zip(concat({"entry ", i, " of the directory is cut off"}));
    const std::uint64_t flags = get_number(record + 8, 2), method = get_number(record + 10, 2);
    const std::uint64_t packed = get_number(record + 20, 4), size = get_number(record + 24, 4);
    const std::uint64_t offset = get_number(record + 42, 4);
    ZipEntry& entry = entries.emplace_back(
        ZipEntry{.name = std::string(zip_text(directory.subspan(zip_directory_size, name_size))),
                 .deflated = method == 8,
                 .crc = static_cast<std::uint32_t>(get_number(record + 16, 4)),
                 .size = static_cast<std::uint32_t>(size)});
    directory = directory.subspan(record_size);
    if ((flags & 1) != 0) refuse_zip(concat({"entry ", in_quotes(entry.name), " is encrypted"}));
    if (method != 0 && method != 8)
      refuse_zip(concat({"entry ", in_quotes(entry.name), " has compression ", method,
                         ", expected 0 (stored) or 8 (deflated)"}));
    if (packed == zip64_mark || size == zip64_mark || offset == zip64_mark)
      refuse_zip(concat({"entry ", in_quotes(entry.name),
                         " needs zip64, which is not supported: it has 4 GiB or more"}));
    if (method == 0 && packed != size)
      refuse_zip(concat({"entry ", in_quotes(entry.name), " has two different sizes"}));
    ranges.emplace_back(static_cast<std::size_t>(offset),
                        locate_zip_data(files, offset, packed, entry));
  }
  if (!directory.empty()) refuse_zip("the directory has more entries than the end record says");
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) refuse_zip("two entries overlap");
  return entries;
}

/// Appends numbers of the given sizes, in bytes.
LOCKSTEP_INLINE void append_numbers(
    std::vector<std::byte>& bytes,
    std::initializer_list<std::pair<std::uint64_t, std::size_t>> numbers) {
  for (const auto& [number, size] : numbers) {
    bytes.resize(bytes.size() + size);
    put_number(bytes.data() + bytes.size() - size, number, size);
  }
}

LOCKSTEP_INLINE void ZipWriter::add(std::string_view name, std::span<const std::byte> head,
                                    std::span<const std::byte> body) {
  const std::uint64_t size = head.size() + body.size(), offset = bytes_.size();
  if (offset + zip_local_size + name.size() + size >= zip64_mark || ++count_ >= 0xFFFF ||
      name.size() > 0xFFFF)
    refuse_zip(
        "the file would have 4 GiB, 65,535 entries or more, which are not supported: use another "
        "format");
  const std::uint32_t crc = crc32(body, crc32(head));
  constexpr std::uint64_t version = 20, first_of_january_1980 = 0x0021;
  const auto text = std::as_bytes(std::span(name));
  // version, flags, compression, time, date, checksum, packed size, size, size of the name, size of
  // the extra field
  const std::initializer_list<std::pair<std::uint64_t, std::size_t>> description = {
      {version, 2}, {0, 2},    {0, 2},    {0, 2},           {first_of_january_1980, 2},
      {crc, 4},     {size, 4}, {size, 4}, {name.size(), 2}, {0, 2}};
  append_numbers(bytes_, {{zip_local_mark, 4}});
  append_numbers(bytes_, description);
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  bytes_.insert(bytes_.end(), head.begin(), head.end());
  bytes_.insert(bytes_.end(), body.begin(), body.end());
  append_numbers(directory_, {{zip_directory_mark, 4}, {version, 2}});
  append_numbers(directory_, description);
  // comment, part, attributes; place
  append_numbers(directory_, {{0, 2}, {0, 2}, {0, 2}, {0, 4}, {offset, 4}});
  directory_.insert(directory_.end(), text.begin(), text.end());
}

LOCKSTEP_INLINE std::vector<std::byte> ZipWriter::finish() && {
  const std::uint64_t offset = bytes_.size();
  if (offset + directory_.size() >= zip64_mark)
    refuse_zip("the file would have 4 GiB or more, which is not supported: use another format");
  bytes_.insert(bytes_.end(), directory_.begin(), directory_.end());
  append_numbers(bytes_, {{zip_end_mark, 4},
                          {0, 2},
                          {0, 2},
                          {count_, 2},
                          {count_, 2},
                          {directory_.size(), 4},
                          {offset, 4},
                          {0, 2}});
  return std::move(bytes_);
}

}}}  // namespace lockstep::detail
