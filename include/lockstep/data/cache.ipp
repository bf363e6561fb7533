#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

inline constexpr std::string_view cache_magic = "LSCACHE1";
inline constexpr std::size_t cache_word = sizeof(std::uint64_t);
inline constexpr std::size_t cache_header_words = 3;  // behind the magic
inline constexpr std::uint64_t cache_longest_key = 1 << 20;
inline constexpr std::size_t cache_block_records = 64;  // in memory

inline void append_word(std::vector<std::byte>& bytes, std::uint64_t word) {
  bytes.resize(bytes.size() + cache_word);
  put_number<cache_word>(bytes.data() + bytes.size() - cache_word, word);
}

/// Records of bytes by keys of whole numbers, in memory or in a file; a record is never changed.
/// Any number of threads may use it.
///
/// A file begins with a header: "LSCACHE1", the size of a record, and the length, the CRC-32C and
/// the text of a description of what it holds. Each record has the length of its key in numbers,
/// the CRC-32C of key and bytes, the key and the bytes. Numbers are little-endian, of 64 bits, the
/// two CRCs too. A record that is incomplete at the end of the file, as a killed process leaves it,
/// is cut off.
class CacheStore {
 public:
  using Key = std::vector<std::uint64_t>;

  /// In memory when path is empty.
  explicit CacheStore(std::string path) : path_(std::move(path)) {}
  CacheStore(const CacheStore&) = delete;
  CacheStore& operator=(const CacheStore&) = delete;
  ~CacheStore() {
    if (file_ >= 0) ::close(file_);  // and so lets go of its lock
  }

  /// Before the first find: opens the file, or makes it. While another process has it, "path.1",
  /// "path.2", ... are tried. Throws DataError when it has records of another size or description,
  /// or cannot be used. In memory, keeps records of several sizes apart.
  void open(std::size_t record_size, std::string_view description) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(record_size)) return;
    if (!path_.empty()) {
      if (!places_.empty())
        fail("a program reads it in float and in double; use one type, or a cache in memory");
      open_file(record_size, description);
    }
    places_.try_emplace(record_size);
    if (!path_.empty()) find_records(record_size);
  }
  [[nodiscard]] bool is_open(std::size_t record_size) const {
    const std::lock_guard lock(mutex_);
    return places_.contains(record_size);
  }

  /// Copies the record to `out`; false when there is none. Throws DataError when it is damaged.
  bool find(const Key& key, std::span<std::byte> out) {
    std::unique_lock lock(mutex_);
    const Places& places = places_.at(out.size());
    const auto found = places.of.find(key);
    if (found == places.of.end()) return false;
    const std::uint64_t place = found->second;
    if (file_ < 0) {
      const std::byte* const block =
          places.blocks[static_cast<std::size_t>(place / cache_block_records)].get();
      lock.unlock();  // a record is never changed
      std::memcpy(out.data(), block + place % cache_block_records * out.size(), out.size());
      return true;
    }
    lock.unlock();
    std::vector<std::byte> head((2 + key.size()) * cache_word);
    read_at(place, head);
    read_at(place + head.size(), out);
    const auto crc = get_number<cache_word>(head.data() + cache_word);
    if (crc32c(out, crc32c(std::span(std::as_const(head)).subspan(2 * cache_word))) != crc)
      fail(concat({"the record at byte ", place, " is damaged; delete the file"}));
    return true;
  }
  /// Keeps a record; the first one of a key stays.
  void insert(const Key& key, std::span<const std::byte> record) {
    const std::lock_guard lock(mutex_);
    Places& places = places_.at(record.size());
    if (places.of.contains(key)) return;
    if (path_.empty()) {
      const std::size_t number = places.of.size(), in_block = number % cache_block_records;
      if (in_block == 0)
        places.blocks.push_back(std::make_unique<std::byte[]>(cache_block_records * record.size()));
      std::memcpy(places.blocks.back().get() + in_block * record.size(), record.data(),
                  record.size());
      places.of.emplace(key, number);
      return;
    }
    std::vector<std::byte> words, bytes;
    for (const std::uint64_t number : key) append_word(words, number);
    append_word(bytes, std::uint64_t{key.size()});
    append_word(bytes, std::uint64_t{crc32c(record, crc32c(words))});
    bytes.insert(bytes.end(), words.begin(), words.end());
    bytes.insert(bytes.end(), record.begin(), record.end());
    write_at(end_, bytes);
    places.of.emplace(key, end_);
    end_ += bytes.size();
  }

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      RandomKey hash(key.size());
      for (const std::uint64_t number : key) hash = hash.fold_in(number);
      return static_cast<std::size_t>(hash.value());
    }
  };
  struct Places {
    std::unordered_map<Key, std::uint64_t, KeyHash>
        of;  ///< number of the record, or its offset in the file
    std::vector<std::unique_ptr<std::byte[]>> blocks;  ///< of records_in_block records, in memory
  };

  void open_file(std::size_t record_size, std::string_view description) {
    constexpr int most = 1024;
    const std::string first = path_;
    for (int i = 0; i < most && file_ < 0; ++i) {
      if (i > 0) path_ = concat({first, ".", i});
      const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (file < 0) fail(concat({"cannot be opened: ", std::strerror(errno)}));
      if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
        file_ = file;
        break;
      }
      const int error = errno;
      ::close(file);
      if (error != EWOULDBLOCK) fail(concat({"cannot be locked: ", std::strerror(error)}));
    }
    if (file_ < 0) fail(concat({most, " other processes use it and its numbered neighbours"}));
    struct ::stat status {};
    if (::fstat(file_, &status) != 0) fail(concat({"cannot be read: ", std::strerror(errno)}));
    end_ = static_cast<std::uint64_t>(status.st_size);
    if (end_ == 0)
      write_header(record_size, description);
    else
      check_header(record_size, description);
  }
  void write_header(std::size_t record_size, std::string_view description) {
    std::vector<std::byte> header;
    const auto text = std::as_bytes(std::span(description));
    const auto magic = std::as_bytes(std::span(cache_magic));
    header.insert(header.end(), magic.begin(), magic.end());
    for (const std::uint64_t word :
         {std::uint64_t{record_size}, std::uint64_t{text.size()}, std::uint64_t{crc32c(text)}})
      append_word(header, word);
    header.insert(header.end(), text.begin(), text.end());
    write_at(0, header);
    end_ = header.size();
  }
  void check_header(std::size_t record_size, std::string_view description) {
    constexpr std::size_t fixed = cache_magic.size() + cache_header_words * cache_word;
    std::array<std::byte, fixed> header{};
    if (end_ < fixed)
      fail("is no cache of this library, or is incomplete; delete it, or give another path");
    read_at(0, header);
    if (std::memcmp(header.data(), cache_magic.data(), cache_magic.size()) != 0)
      fail("is no cache of this library; give another path");
    std::array<std::uint64_t, cache_header_words> words{};
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = get_number<cache_word>(header.data() + cache_magic.size() + i * cache_word);
    std::string text;
    if (words[1] <= end_ - fixed) {
      text.resize(static_cast<std::size_t>(words[1]));
      read_at(fixed, std::as_writable_bytes(std::span(text)));
    }
    if (crc32c(std::as_bytes(std::span(std::as_const(text)))) != words[2])
      fail("has a damaged header; delete it");
    if (words[0] != record_size || text != description)
      fail(concat(
          {"was made from other data or by another pipeline; delete it, or give another path. "
           "It has records of ",
           words[0], " bytes from ", text, "; this program makes records of ", record_size,
           " bytes from ", description}));
  }
  void find_records(std::size_t record_size) {
    Places& places = places_[record_size];
    const std::uint64_t size = end_;
    constexpr std::size_t fixed = cache_magic.size() + cache_header_words * cache_word;
    std::array<std::byte, cache_word> word{};
    read_at(cache_magic.size() + cache_word, word);
    end_ = fixed + get_number<cache_word>(word.data());
    std::vector<std::byte> bytes;
    while (size - end_ >= 2 * cache_word) {
      read_at(end_, word);
      const auto length = get_number<cache_word>(word.data());
      if (length > cache_longest_key) break;
      const std::uint64_t before = (2 + length) * cache_word;
      if (size - end_ < before || size - end_ - before < record_size) break;
      bytes.resize(static_cast<std::size_t>(length * cache_word));
      read_at(end_ + 2 * cache_word, bytes);
      Key key;
      for (std::size_t i = 0; i < length; ++i)
        key.push_back(get_number<cache_word>(bytes.data() + i * cache_word));
      places.of.try_emplace(std::move(key), end_);
      end_ += before + record_size;
    }
    if (end_ < size && ::ftruncate(file_, static_cast<off_t>(end_)) != 0)
      fail(concat({"cannot be shortened: ", std::strerror(errno)}));
  }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = ::pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        fail(
            concat({"cannot be read: ", got < 0 ? std::strerror(errno) : "it has become shorter"}));
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail(concat({"cannot be written: ", std::strerror(errno)}));
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      offset += static_cast<std::uint64_t>(done);
    }
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw DataError(concat({"cache file ", path_, ": ", problem}));
  }

  std::string path_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Places> places_;  ///< by the size of a record
  int file_ = -1;
  std::uint64_t end_ = 0;  ///< of the file's records
};

/// What tells an element from others, its parts included.
inline void append_key(const Element& element, CacheStore::Key& key) {
  key.push_back(static_cast<std::uint64_t>(element.index));
  key.push_back(element.pass);
  if (element.parts.empty()) return;
  key.push_back(element.parts.size());
  for (const Element& part : element.parts) append_key(part, key);
}

}  // namespace detail

LOCKSTEP_INLINE Cache::Cache(AnyStage upstream, std::string path)
    : upstream_(std::move(upstream)),
      path_(std::move(path)),
      store_(std::make_shared<detail::CacheStore>(path_)) {}

LOCKSTEP_INLINE void Cache::shard_files(int num_shards, int index) {
  upstream_.shard_files(num_shards, index);
  if (!path_.empty()) path_ += concat({".", index, "-of-", num_shards});
  store_ = std::make_shared<detail::CacheStore>(path_);
}

LOCKSTEP_INLINE void Cache::begin(Pass pass) {
  upstream_.begin(Pass::of({.seed = path_.empty() ? pass.seed : 0, .number = 0}));
  pass_ = RandomKey(pass.seed).fold_in(pass.path.value()).value();
}

LOCKSTEP_INLINE bool Cache::next(Element& element) {
  Element kept;
  if (!upstream_.next(kept)) return false;
  element.index = kept.index;
  element.pass = RandomKey(pass_).fold_in(kept.pass).value();
  element.parts.clear();
  element.parts.push_back(std::move(kept));
  return true;
}

LOCKSTEP_INLINE void Cache::describe(PipelineDescription& description) const {
  upstream_.describe(description);
  description.add({path_.empty() ? "cache" : "cache(file)"});
  description.is_reshuffled = false;
}

LOCKSTEP_INLINE void Cache::open(std::size_t record_size) {
  if (store_->is_open(record_size)) return;
  std::string text;
  if (!path_.empty()) {
    PipelineDescription description;
    upstream_.describe(description);
    const SourceFingerprint source = upstream_.fingerprint();
    text = concat(
        {description.text, " (", source.samples, " samples, checksum ", source.checksum, ")"});
  }
  store_->open(record_size, text);
}

template <class T>
void Cache::read_kept(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const std::size_t count = samples.indices.size(), x_size = sample_size(), y_size = target_size();
  const std::size_t size = x_size + y_size;
  if (count == 0 || size == 0) return;
  open(size * sizeof(T));
  T* const records = records_.get<T>(count * size);
  const auto record = [&](std::size_t i) { return std::span<T>(records + i * size, size); };

  missing_.clear();
  missing_rows_.clear();
  missing_keys_.clear();
  detail::CacheStore::Key key;
  for (std::size_t i = 0; i < count; ++i) {
    key.clear();
    detail::append_key(samples.parts[i].front(), key);
    if (store_->find(key, std::as_writable_bytes(record(i)))) continue;
    missing_.push_back(samples.parts[i].front());
    missing_rows_.push_back(i);
    missing_keys_.push_back(key);
  }
  if (!missing_rows_.empty()) {
    const std::size_t absent = missing_rows_.size();
    const TensorView<T> from_x = samples_.view<T>(absent, x_size);
    const TensorView<T> from_y = targets_.view<T>(absent, y_size);
    upstream_.read(missing_, from_x, from_y);
    for (std::size_t i = 0; i < absent; ++i) {
      const std::span<T> row = record(missing_rows_[i]);
      detail::copy_out<T>(from_x, i, 1, row.data());
      detail::copy_out<T>(from_y, i, 1, row.data() + x_size);
      store_->insert(missing_keys_[i], std::as_bytes(row));
    }
  }
  const auto same = [](T value) { return value; };
  detail::scatter_rows<T, T>(
      count, [&](std::size_t i) -> const T* { return record(i).data(); }, x, same);
  if (!y.empty())
    detail::scatter_rows<T, T>(
        count, [&](std::size_t i) -> const T* { return record(i).data() + x_size; }, y, same);
}

LOCKSTEP_INLINE void Cache::read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
  read_kept(samples, x, y);
}
LOCKSTEP_INLINE void Cache::read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
  read_kept(samples, x, y);
}

}}  // namespace lockstep
