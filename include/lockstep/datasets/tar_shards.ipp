#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/tar_shards.hpp"

// The formats: POSIX.1-2017, "pax", "ustar Interchange Format"; GNU tar's manual, "Basic Tar
// Format". A header is a block of 512 bytes, the data follow, padded to blocks; two blocks of zeros
// are the end. A header of type x (pax) or L (GNU) before it has a name that is too long for it, or
// a size.

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

inline constexpr std::uint64_t tar_block = 512;
inline constexpr std::uint64_t tar_longest_extension = std::uint64_t{1} << 20;  // of x and L

/// A field of a header.
struct TarField {
  std::size_t begin, size;
};
inline constexpr TarField tar_name{0, 100}, tar_size{124, 12}, tar_checksum{148, 8},
    tar_magic{257, 6}, tar_prefix{345, 155};
inline constexpr std::size_t tar_type = 156;

/// A file in a tar file.
struct TarMember {
  std::uint64_t begin = 0;  ///< of its first header
  char type = '0';
  std::string name;
  std::string_view data;
};

/// Goes from member to member.
class TarWalk {
 public:
  TarWalk(const std::string& path, std::string_view bytes, std::uint64_t begin = 0)
      : path_(path), bytes_(bytes), at_(begin) {}

  /// Empty at the end.
  std::optional<TarMember> next() {
    TarMember member{.begin = at_, .type = '0', .name = {}, .data = {}};
    std::string long_name;
    std::optional<std::uint64_t> long_size;
    for (;;) {
      const std::uint64_t header_at = at_;
      const std::string_view header = block();
      if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
        if (header_at != member.begin) fail(header_at, "expected a header behind an extended one");
        check_end();
        return {};
      }
      check_sum(header, header_at);
      member.type = header[tar_type];
      const bool is_extension =
          member.type == 'x' || member.type == 'g' || member.type == 'L' || member.type == 'K';
      const std::uint64_t size =
          !is_extension && long_size ? *long_size : number(field(header, tar_size), header_at);
      member.data = data(size, header_at, is_extension);
      if (member.type == 'x' || member.type == 'g') {
        read_pax(member.data, header_at, member.type == 'g', long_name, long_size);
      } else if (member.type == 'L') {
        long_name = std::string(member.data.substr(0, member.data.find('\0')));
      } else if (member.type != 'K') {
        member.name = long_name.empty() ? name(header) : long_name;
        return member;
      }
    }
  }
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }

  [[noreturn, gnu::cold]] void fail(std::uint64_t at, std::string_view what) const {
    throw DataError(concat({"from_tar_shards: ", path_, ", at byte ", at, ": ", what}));
  }

 private:
  static std::string_view field(std::string_view header, TarField of) {
    return header.substr(of.begin, of.size);
  }
  static std::string_view text(std::string_view field) { return field.substr(0, field.find('\0')); }

  std::string_view block() {
    if (bytes_.size() - at_ < tar_block)
      fail(at_,
           at_ == bytes_.size()
               ? "the file ends without the two blocks of zeros that end a tar file: it is cut off"
               : "the file is cut off in a header");
    const std::string_view header = bytes_.substr(at_, tar_block);
    at_ += tar_block;
    return header;
  }

  void check_end() {
    const std::size_t rest = bytes_.find_first_not_of('\0', at_);
    if (rest != bytes_.npos)
      fail(rest,
           "something follows the end of the tar file: files that were put together are read with "
           "tar --concatenate, or each by itself");
  }

  void check_sum(std::string_view header, std::uint64_t at) const {
    std::int64_t bytes = 0, signed_bytes = 0;
    for (std::size_t i = 0; i < tar_block; ++i) {
      const bool is_own = i >= tar_checksum.begin && i < tar_checksum.begin + tar_checksum.size;
      const char c = is_own ? ' ' : header[i];
      bytes += static_cast<unsigned char>(c);
      signed_bytes += static_cast<signed char>(c);
    }
    const std::optional<std::uint64_t> sum = octal(field(header, tar_checksum));
    if (sum && (static_cast<std::int64_t>(*sum) == bytes ||
                static_cast<std::int64_t>(*sum) == signed_bytes))  // (old programs' sums)
      return;
    fail(at, concat({"the checksum of the header does not fit: the file is damaged, or no tar file",
                     at == 0 ? format_note(bytes_) : ""}));
  }

  /// Digits, with blanks before them, up to a blank or zero.
  static std::optional<std::uint64_t> octal(std::string_view field) {
    field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
    field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
    std::uint64_t value = 0;
    if (field.empty()) return value;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
    if (error != std::errc{} || end != field.data() + field.size()) return {};
    return value;
  }
  /// GNU's binary form, too.
  std::uint64_t number(std::string_view field, std::uint64_t at) const {
    if ((static_cast<unsigned char>(field.front()) & 0x80U) != 0) {
      std::uint64_t value = 0;
      for (std::size_t i = 0; i < field.size(); ++i) {
        const unsigned byte = static_cast<unsigned char>(field[i]) & (i == 0 ? 0x7FU : 0xFFU);
        if (i + 8 < field.size() ? byte != 0 : i + 8 == field.size() && byte > 0x7F)
          fail(at, "the header has a size that no file has");
        value = value << 8 | byte;
      }
      return value;
    }
    const std::optional<std::uint64_t> value = octal(field);
    if (!value)
      fail(at, concat({"the header has the size ", in_quotes(text(field)),
                       ", which is no octal number"}));
    return *value;
  }

  std::string_view data(std::uint64_t size, std::uint64_t at, bool is_extension) {
    if (is_extension && size > tar_longest_extension)
      fail(at, concat({"an extended header has ", size, " bytes, at most ", tar_longest_extension,
                       " are expected: the file is damaged"}));
    const std::uint64_t room = bytes_.size() - at_;
    if (size > room)
      fail(at, concat({"the file is cut off: expected ", size, " bytes of data, got ", room}));
    const std::string_view all = bytes_.substr(at_, size);
    const std::uint64_t padded = (size + tar_block - 1) / tar_block * tar_block;
    if (padded > room) fail(at, "the file is cut off behind the data of its last file");
    at_ += padded;
    return all;
  }

  /// Records "length key=value\n".
  void read_pax(std::string_view records, std::uint64_t at, bool is_for_all, std::string& name,
                std::optional<std::uint64_t>& size) const {
    const auto damaged = [&] { fail(at, "an extended header is damaged"); };
    while (!records.empty()) {
      std::size_t length = 0;
      const auto [end, error] =
          std::from_chars(records.data(), records.data() + records.size(), length);
      const auto digits = static_cast<std::size_t>(end - records.data());
      if (error != std::errc{} || length > records.size() || length < digits + 3 ||
          records[digits] != ' ' || records[length - 1] != '\n')
        damaged();
      const std::string_view record = records.substr(digits + 1, length - digits - 2);
      records.remove_prefix(length);
      const std::size_t equals = record.find('=');
      if (equals == record.npos) damaged();
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key.starts_with("GNU.sparse."))
        fail(at, "a file is sparse: make the tar without --sparse");
      if (key != "path" && key != "size") continue;
      if (is_for_all)
        fail(at, concat({"a header for all files has the key ", in_quotes(key),
                         ", which is expected in those of single files"}));
      if (key == "path") {
        name = std::string(value);
        continue;
      }
      std::uint64_t bytes = 0;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (wrong != std::errc{} || last != value.data() + value.size()) damaged();
      size = bytes;
    }
  }

  static std::string name(std::string_view header) {
    const std::string_view own = text(field(header, tar_name));
    const bool is_ustar = field(header, tar_magic) == std::string_view("ustar\0", 6);
    const std::string_view prefix = is_ustar ? text(field(header, tar_prefix)) : "";
    return prefix.empty() ? std::string(own) : concat({prefix, "/", own});
  }

  const std::string& path_;
  std::string_view bytes_;
  std::uint64_t at_;
};

/// "train/0001" and "seg.png" of "train/0001.seg.png".
struct TarKey {
  std::string_view key, extension;
};
/// Empty: the file belongs to no sample.
inline std::optional<TarKey> tar_key(std::string_view name) {
  if (name.starts_with("./")) name.remove_prefix(2);
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == name.npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base || dot + 1 == name.size()) return {};
  return TarKey{name.substr(0, dot), name.substr(dot + 1)};
}

/// Whether it may be a part of a sample. Throws DataError for what is no whole file.
inline bool is_tar_file(const TarMember& member, const TarWalk& walk) {
  switch (member.type) {
    case '0':
    case '\0':
    case '7':
      return !member.name.ends_with('/');  // (a folder of old programs)
    case '5':
      return false;
    case '1':
      walk.fail(member.begin, concat({in_quotes(member.name),
                                      " is a hard link: make the tar with --hard-dereference"}));
    case '2':
      walk.fail(member.begin, concat({in_quotes(member.name),
                                      " is a symbolic link: make the tar with --dereference"}));
    default:
      walk.fail(member.begin, concat({in_quotes(member.name), " is of type ",
                                      in_quotes(std::string_view(&member.type, 1)),
                                      ", expected a file: make the tar of files and folders, not "
                                      "sparse"}));
  }
}

/// The next file of a sample. `key`, `extension`: set.
inline std::optional<TarMember> next_tar_file(TarWalk& walk, std::string& key,
                                              std::string& extension) {
  while (std::optional<TarMember> member = walk.next()) {
    const std::optional<TarKey> parts = tar_key(member->name);
    if (!parts || !is_tar_file(*member, walk)) continue;
    key = std::string(parts->key);
    extension = std::string(parts->extension);
    for (char& c : extension)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return member;
  }
  return {};
}

LOCKSTEP_INLINE void check_tar_images(const TarImageOptions& options) {
  if (options.height == 0 || options.width == 0 || (options.channels != 1 && options.channels != 3))
    throw ConfigurationError(
        concat({"from_tar_images: expected a height and a width of at least 1 "
                "and 1 or 3 channels, got ",
                options.height, " x ", options.width, " x ", options.channels}));
  if (options.image.empty())
    throw ConfigurationError("from_tar_images: .image has no extension: give {\"jpg\"}, say");
}

}  // namespace detail

LOCKSTEP_INLINE TarFile::TarFile(std::string path)
    : file_(std::make_shared<const detail::MappedFile>("from_tar_shards", std::move(path))) {
  detail::TarWalk walk(file_->path(), file_->text());
  std::vector<std::uint64_t> begins;
  std::unordered_set<std::string> keys, extensions;
  std::string last, key, extension;
  while (const std::optional<detail::TarMember> member =
             detail::next_tar_file(walk, key, extension)) {
    if (begins.empty() || key != last) {
      if (!keys.insert(key).second)
        walk.fail(member->begin, concat({"the files of sample ", in_quotes(key),
                                         " do not stand together: make the tar with --sort=name"}));
      begins.push_back(member->begin);
      extensions.clear();
      last = key;
    }
    if (!extensions.insert(extension).second)
      walk.fail(member->begin, concat({"sample ", in_quotes(key), " has two files ",
                                       in_quotes(concat({".", extension}))}));
  }
  begins.shrink_to_fit();
  begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
}

LOCKSTEP_INLINE TarSample TarFile::operator[](std::size_t i) const {
  detail::TarWalk walk(file_->path(), file_->text(), (*begins_)[i]);
  const bool is_last = i + 1 == begins_->size();
  std::string first, key, extension;
  std::vector<TarSample::Member> members;
  while (is_last || walk.at() < (*begins_)[i + 1]) {
    const std::optional<detail::TarMember> member = detail::next_tar_file(walk, key, extension);
    if (!member || (!members.empty() && key != first)) break;
    first = key;
    members.push_back({.extension = extension,
                       .bytes = std::as_bytes(std::span(member->data)),
                       .offset = member->begin});
  }
  return {file_->path(), std::move(first), std::move(members)};
}

LOCKSTEP_INLINE bool TarSample::has(std::string_view extension) const noexcept {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.extension == extension; });
}

LOCKSTEP_INLINE std::string TarSample::name() const {
  return concat({path_, ": sample ", in_quotes(key_), " at byte ",
                 members_.empty() ? std::uint64_t{0} : members_.front().offset});
}

LOCKSTEP_INLINE std::span<const std::byte> TarSample::operator[](std::string_view extension) const {
  std::string there;
  for (const Member& member : members_) {
    if (member.extension == extension) return member.bytes;
    there += concat({there.empty() ? "" : ", ", member.extension});
  }
  throw DataError(concat({"from_tar_shards: ", name(), " has no file ",
                          in_quotes(concat({".", extension})), "; it has ", there}));
}

LOCKSTEP_INLINE std::string_view TarSample::text(std::string_view extension) const {
  const std::span<const std::byte> bytes = (*this)[extension];
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LOCKSTEP_INLINE std::int64_t TarSample::number(std::string_view extension) const {
  std::string_view digits = text(extension);
  constexpr std::string_view blanks = " \t\r\n";
  digits.remove_prefix(std::min(digits.find_first_not_of(blanks), digits.size()));
  digits = digits.substr(0, digits.find_last_not_of(blanks) + 1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size())
    throw DataError(
        concat({"from_tar_shards: ", name(), ": ", in_quotes(concat({".", extension})), " has ",
                in_quotes(digits.substr(0, 40)), ", which is no whole number"}));
  return value;
}

}}  // namespace lockstep
