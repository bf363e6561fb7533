// Where a cache keeps its samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  ~CacheStore();

  /// Before the first find: opens the file, or makes it. While another process has it, "path.1",
  /// "path.2", ... are tried. Throws DataError when it has records of another size or description,
  /// or cannot be used. In memory, keeps records of several sizes apart.
  void open(std::size_t record_size, std::string_view description);
  [[nodiscard]] bool is_open(std::size_t record_size) const;

  /// Copies the record to `out`; false when there is none. Throws DataError when it is damaged.
  bool find(const Key& key, std::span<std::byte> out);
  /// Keeps a record; the first one of a key stays.
  void insert(const Key& key, std::span<const std::byte> record);

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Places {
    std::unordered_map<Key, std::uint64_t, KeyHash>
        of;  ///< number of the record, or its offset in the file
    std::vector<std::unique_ptr<std::byte[]>> blocks;  ///< of records_in_block records, in memory
  };

  void open_file(std::size_t record_size, std::string_view description);
  void write_header(std::size_t record_size, std::string_view description);
  void check_header(std::size_t record_size, std::string_view description);
  void find_records(std::size_t record_size);
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  [[noreturn]] void fail(std::string_view problem) const;

  std::string path_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Places> places_;  ///< by the size of a record
  int file_ = -1;
  std::uint64_t end_ = 0;  ///< of the file's records
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/cache_store.ipp"
#endif
