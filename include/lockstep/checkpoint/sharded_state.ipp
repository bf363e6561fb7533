#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cereal/cereal.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/detail/manifest.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::uint64_t sharded_format_version = 1;
inline constexpr std::string_view shard_prefix = "shard-";

/// What a manifest says of a worker's file.
struct ShardFile {
  std::string file{}, host{};
  std::uint64_t worker = 0;
  std::uint64_t bytes = 0;
  std::uint64_t crc = 0;  ///< CRC-32C of its head, which has the checksums of its arrays
  std::vector<std::uint64_t> slices{};  ///< array, begin, count; array, ...
};

/// Reads a manifest. Unknown members are skipped.
class ShardedManifest final : JsonEvents {
 public:
  explicit ShardedManifest(std::string_view text) {
    try {
      read_json(text, *this);
    } catch (const JsonError& error) {
      throw DataError(concat({"it is no JSON: ", error.what()}));
    }
    if (format_ != "lockstep sharded state")
      throw DataError("it is no manifest of a sharded state of lockstep");
    if (version_ != sharded_format_version)
      throw DataError(concat({"format version ", version_, ", this library reads ",
                              sharded_format_version, ": use a newer lockstep"}));
    check();
  }

  [[nodiscard]] std::span<const SavedArray> arrays() const& noexcept { return arrays_; }
  [[nodiscard]] std::span<const ShardFile> shards() const& noexcept { return shards_; }
  /// Its arrays of a list: "parameters", "state" or "slots".
  [[nodiscard]] std::size_t count(std::string_view list) const {
    return static_cast<std::size_t>(std::ranges::count(lists_, list));
  }
  [[nodiscard]] std::uint64_t elements(std::size_t array) const { return elements_[array]; }
  [[nodiscard]] std::size_t element_size() const { return scalar_size(scalar_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// The updates made.
  [[nodiscard]] std::uint64_t step() const noexcept { return step_; }

 private:
  /// Each element of each array is in one file.
  void check() {
    static constexpr std::array<std::string_view, 3> names{"parameters", "state", "slots"};
    const auto order = [](const std::string& list) { return std::ranges::find(names, list); };
    for (std::size_t i = 0; i < lists_.size(); ++i)
      if (order(lists_[i]) == names.end() || (i > 0 && order(lists_[i]) < order(lists_[i - 1])))
        throw DataError(concat({"damaged: the list of array ", i, " is ", in_quotes(lists_[i])}));
    std::vector<ArraySlice> all;
    (void)element_size();  // which knows the type, or throws
    for (SavedArray& array : arrays_) {
      array.scalar = scalar_;
      const auto size = array_size(array.extents, element_size());
      if (!size || __builtin_add_overflow(bytes_, *size, &bytes_))
        throw DataError(concat({"damaged: the shape of ", in_quotes(array.name)}));
      elements_.push_back(*size / element_size());
    }
    std::set<std::string_view> files;
    for (const ShardFile& shard : shards_) {
      if (!files.insert(shard.file).second)
        throw DataError(concat({"damaged: it names ", in_quotes(shard.file), " twice"}));
      const bool is_name = shard.file.starts_with(shard_prefix) &&
                           shard.file.find_first_of(std::string_view("/\0", 2)) == shard.file.npos;
      if (!is_name || shard.slices.size() % 3 != 0)
        throw DataError(concat({"damaged: the entry of shard ", in_quotes(shard.file)}));
      for (std::size_t i = 0; i < shard.slices.size(); i += 3)
        all.push_back({shard.slices[i], shard.slices[i + 1], shard.slices[i + 2]});
    }
    std::ranges::sort(all, {}, [](const ArraySlice& slice) {
      return std::tuple(slice.array, slice.begin, slice.count);
    });
    auto slice = all.begin();
    for (std::uint64_t array = 0; array < arrays_.size(); ++array)
      for (std::uint64_t done = 0; done < elements_[array]; done += (slice++)->count)
        if (slice == all.end() || slice->array != array || slice->begin != done ||
            slice->count == 0 || slice->count > elements_[array] - done)
          throw DataError(concat({"damaged: the shards have element ", done, " of array ",
                                  in_quotes(arrays_[array].name), " not exactly once"}));
    if (slice != all.end()) throw DataError("damaged: a shard has a slice of no array");
  }

  void begin_object() override {
    ++depth_;
    if (depth_ == 2 && section_ == "arrays") arrays_.emplace_back(), lists_.emplace_back();
    if (depth_ == 2 && section_ == "shards") shards_.emplace_back();
  }
  void key(std::string name) override { (depth_ == 1 ? section_ : key_) = std::move(name); }
  void end_object() override { --depth_; }
  void begin_array() override {}
  void end_array() override {}
  void value(JsonScalar value) override {
    const auto* const text = std::get_if<std::string>(&value);
    const auto* const number = std::get_if<std::uint64_t>(&value);
    const auto take = [&](std::string_view name, auto& field) {
      if ((depth_ == 1 ? section_ : key_) != name) return;
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::string>) {
        if (text != nullptr) return (void)(field = *text);
      } else if (number != nullptr) {
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::uint64_t>)
          return (void)(field = *number);
        else
          return field.push_back(*number);
      }
      throw DataError(concat({"damaged: the value of ", in_quotes(name)}));
    };
    if (depth_ == 1) {
      take("format", format_);
      take("version", version_);
      take("step", step_);
      take("scalar", scalar_);
    } else if (depth_ == 2 && section_ == "arrays" && !arrays_.empty()) {
      take("name", arrays_.back().name);
      take("list", lists_.back());
      take("shape", arrays_.back().extents);
    } else if (depth_ == 2 && section_ == "shards" && !shards_.empty()) {
      ShardFile& shard = shards_.back();
      take("file", shard.file);
      take("host", shard.host);
      take("worker", shard.worker);
      take("bytes", shard.bytes);
      take("crc32c_of_head", shard.crc);
      take("slices", shard.slices);
    }
  }

  std::string format_{}, scalar_{}, section_{}, key_{};
  std::uint64_t version_ = 0, step_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<SavedArray> arrays_{};
  std::vector<std::string> lists_{};
  std::vector<std::uint64_t> elements_{};
  std::vector<ShardFile> shards_{};
  int depth_ = 0;
};

LOCKSTEP_INLINE std::string this_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Nothing where there is no such file.
LOCKSTEP_INLINE std::optional<std::string> manifest_text(const std::string& path) {
  const auto bytes = read_file(path, at_most(std::uint64_t{1} << 30, "a manifest"));
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

/// "worker 1 on host node7: "
LOCKSTEP_INLINE std::string worker_on_host(int worker) {
  return concat({"worker ", worker, " on host ", this_host(), ": "});
}

/// Errors of all workers, which begin with '!'; empty if none has one.
LOCKSTEP_INLINE std::string errors_in(const std::vector<std::string>& texts) {
  std::string errors;
  for (const std::string& text : texts)
    if (text.starts_with('!')) errors += (errors.empty() ? "" : "; ") + text.substr(1);
  return errors;
}

/// Throws DataError unless this worker sees a file of the manifest with its size.
LOCKSTEP_INLINE void check_shard_size(const std::string& path, const ShardFile& shard) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) throw_file_error("cannot stat", path);
    throw DataError(concat({in_quotes(path), " is not there: worker ", shard.worker, " on host ",
                            in_quotes(shard.host), " has written it with ", shard.bytes,
                            " bytes: put it back, or share the folder between all hosts"}));
  }
  if (!S_ISREG(status.st_mode))
    throw DataError(
        concat({in_quotes(path), " is no regular file but ", file_kind(status.st_mode)}));
  if (static_cast<std::uint64_t>(status.st_size) != shard.bytes)
    throw DataError(concat({in_quotes(path), " has ", status.st_size, " bytes, and ", shard.bytes,
                            " were written: it is cut off or has grown: copy it anew"}));
}

/// Removes the shards of the folder, and what unfinished writes have left of some, that no manifest
/// names, but for those just written. Removes none if a manifest may be whole and cannot be read.
/// Ignores what cannot be removed.
LOCKSTEP_INLINE void remove_other_shards(const std::string& folder,
                                         std::span<const ShardFile> written = {}) {
  std::set<std::string> named;
  for (const ShardFile& shard : written) named.insert(shard.file);
  for (const std::string& name :
       {folder + manifest_name, previous_generation(folder + manifest_name)})
    try {
      const auto text = manifest_text(name);
      if (!text) continue;
      const ShardedManifest manifest(*text);
      for (const ShardFile& shard : manifest.shards()) named.insert(shard.file);
    } catch (const DataError&) {  // damaged: of no use
    } catch (const Error&) {
      return;
    }
  std::error_code error;
  std::vector<std::filesystem::path> others;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(shard_prefix) && !named.contains(name)) others.push_back(entry->path());
  }
  for (const auto& path : others) ::unlink(path.c_str());
  remove_stale_temporaries(folder + manifest_name);
}

// --- writing -------------------------------------------------------------------------------------

LOCKSTEP_INLINE ShardedSave::ShardedSave(std::string path, int worker, Exchange exchange)
    : path_(std::move(path)), worker_(worker) {
  const std::vector<std::string> all = exchange(random_digits());
  file_ = concat({shard_prefix, worker, "-of-", all.size(), "-", all.front()});
}

LOCKSTEP_INLINE void ShardedSave::write(const StateShare& share) noexcept {
  try {
    const EncodedCheckpoint encoded(share.state);
    const ByteParts parts = encoded.parts();
    entry_ = concat({"{\"file\": ", json_text(file_), ", \"worker\": ", worker_,
                     ", \"host\": ", json_text(this_host()), ", \"bytes\": ", parts.size(),
                     ", \"crc32c_of_head\": ", crc32c(*parts.begin()), ",\n  \"slices\": ["});
    const char* separator = "";
    for (const ArraySlice& slice : share.slices) {
      entry_ += concat({separator, "[", slice.array, ",", slice.begin, ",", slice.count, "]"});
      separator = ",";
    }
    entry_ += "]}";
    if (worker_ == 0) {
      const TrainingState& state = share.state;
      arrays_ =
          concat({"{\"format\": \"lockstep sharded state\", \"version\": ", sharded_format_version,
                  ",\n\"world_size\": ", state.world_size, ", \"step\": ", state.iterations,
                  ", \"epoch\": ", state.epoch, ", \"scalar\": ", json_text(state.scalar),
                  ",\n\"arrays\": ["});
      separator = "\n ";
      const auto add = [&](const char* list, const std::vector<SavedArray>& arrays) {
        for (const SavedArray& array : arrays) {
          arrays_ += concat({separator, "{\"list\": \"", list,
                             "\", \"name\": ", json_text(array.name), ", \"shape\": ["});
          for (std::size_t i = 0; i < array.extents.size(); ++i)
            arrays_ += concat({i > 0 ? "," : "", array.extents[i]});
          arrays_ += "]}";
          separator = ",\n ";
        }
      };
      add("parameters", share.parameters);
      add("state", share.untrained);
      add("slots", share.slots);
      arrays_ += "],\n\"shards\": [";
    }
    write_file_atomically(concat({path_, "/", file_}), parts);
  } catch (const std::exception& error) {
    error_ = error.what();
    abandon();
  }
}

LOCKSTEP_INLINE std::string ShardedSave::commit(FormerFile former, Exchange exchange) {
  std::string error;  // this worker's
  if (!error_.empty()) error = concat({"!", worker_on_host(worker_), error_});
  is_offered_ = error.empty();  // if a peer is lost from here on, the manifest may name the file
  const std::vector<std::string> entries = exchange(error.empty() ? entry_ : error);
  std::string errors = errors_in(entries);
  if (!errors.empty()) {
    is_offered_ = false;
    abandon();
  }
  if (errors.empty() && worker_ == 0) {
    try {
      std::string text = std::move(arrays_);
      for (const std::string& entry : entries)
        text += (&entry == entries.data() ? "\n " : ",\n ") + entry;
      text += "]}\n";
      const ShardedManifest manifest(text);
      for (const ShardFile& shard : manifest.shards())
        check_shard_size(concat({path_, "/", shard.file}), shard);
      const auto bytes = std::as_bytes(std::span(text));
      former == FormerFile::kept ? write_file_keeping_previous(path_ + manifest_name, bytes)
                                 : write_file_atomically(path_ + manifest_name, bytes);
      remove_other_shards(path_, manifest.shards());
    } catch (const std::exception& caught) {
      error = concat({"!", worker_on_host(worker_), caught.what()});
    }
  }
  return errors.empty() ? errors_in(exchange(error)) : errors;
}

LOCKSTEP_INLINE void save_shares(const std::string& path, int worker, const StateShare& share,
                                 Exchange exchange) {
  ShardedSave save(path, worker, exchange);
  save.write(share);
  if (const std::string errors = save.commit(FormerFile::removed, exchange); !errors.empty())
    throw Error(concat({"saving the shards of ", in_quotes(path), ": ", errors}));
}

LOCKSTEP_INLINE void ShardedSave::abandon() const noexcept {
  if (is_offered_) return;
  try {
    remove_file(concat({path_, "/", file_}));
  } catch (const std::exception&) {  // the next commit removes it
  }
}

// --- reading -------------------------------------------------------------------------------------

LOCKSTEP_INLINE bool is_sharded_state(const std::string& path) {
  std::error_code ignored;
  const std::string manifest = path + manifest_name;
  return std::filesystem::exists(manifest, ignored) ||
         std::filesystem::exists(previous_generation(manifest), ignored);
}

LOCKSTEP_INLINE void check_has_shares(std::string_view who, bool has_shares) {
  if (!has_shares)
    throw ConfigurationError(
        concat({who,
                ": .sharded with parameter servers or in an elastic world, where the workers "
                "do not all save together: leave .sharded out"}));
}

LOCKSTEP_INLINE std::optional<std::int64_t> updates_of_sharded_state(const std::string& path) {
  for (const std::string& name : {path + manifest_name, previous_generation(path + manifest_name)})
    try {
      if (const auto text = manifest_text(name))
        return static_cast<std::int64_t>(ShardedManifest(*text).step());
    } catch (const Error&) {  // read_sharded_state says so
    }
  return std::nullopt;
}

/// Reads the slices of a shard that a worker needs.
class ShardReader {
 public:
  ShardReader(const std::string& path, const ShardFile& shard, const ShardedManifest& manifest)
      : path_(path), shard_(shard), manifest_(manifest), file_(path, O_RDONLY | O_NOCTTY) {
    check_shard_size(path, shard);
    if (!file_.is_open()) throw_file_error("cannot open", path);
  }

  /// The sections of the state, which the chief has written, and then `take(slice, bytes)` for each
  /// slice that `is_needed`.
  template <class IsNeeded, class Take>
  void read(TrainingState* sections, IsNeeded is_needed, Take take) {
    std::vector<std::byte> head(
        static_cast<std::size_t>(std::min<std::uint64_t>(shard_.bytes, checked_head)));
    read_at(0, head);
    check_checkpoint_size(head, shard_.bytes, size_limit({}));
    const std::size_t begin =
        checkpoint_header + static_cast<std::size_t>(get_number(head.data() + 12, 8));
    head.resize(begin);
    read_at(0, head);
    if (crc32c(head) != shard_.crc)
      throw DataError(
          "it is not the file of this manifest, but of another save, or damaged: copy it anew");
    ManifestReader reader(std::span<const std::byte>(head).subspan(checkpoint_header));
    TrainingState ignored;
    read_sections(reader, sections != nullptr ? *sections : ignored);
    std::uint64_t offset = begin;
    std::size_t at = 0;
    std::vector<std::byte> bytes;
    for (int list = 0; list < 3; ++list)
      for (std::size_t count = reader.size(1); count > 0; --count, at += 3) {
        ArrayEntry entry;
        reader(entry);
        if (at == shard_.slices.size()) throw DataError("damaged: more arrays than slices");
        const ArraySlice slice{shard_.slices[at], shard_.slices[at + 1], shard_.slices[at + 2]};
        const SavedArray& array = manifest_.arrays()[slice.array];
        if (entry.name != array.name || entry.size != slice.count * manifest_.element_size() ||
            entry.size > shard_.bytes - offset)
          throw DataError(concat({"damaged: expected a slice of ", in_quotes(array.name), ", got ",
                                  entry.size, " bytes of ", in_quotes(entry.name)}));
        if (is_needed(slice)) {
          bytes.resize(static_cast<std::size_t>(entry.size));
          read_at(offset, bytes);
          if (crc32c(bytes) != entry.crc)
            throw DataError(concat({"damaged: the checksum of elements ", slice.begin, " to ",
                                    slice.begin + slice.count - 1, " of ", in_quotes(array.name),
                                    " does not match: copy the file anew"}));
          take(slice, std::span<const std::byte>(bytes));
        }
        offset += entry.size;
      }
    if (at != shard_.slices.size()) throw DataError("damaged: fewer arrays than slices");
  }

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) {
    if (::lseek(file_.get(), static_cast<off_t>(offset), SEEK_SET) < 0)
      throw_file_error("cannot read", path_);
    read_all(file_, path_, bytes);
  }

  const std::string& path_;
  const ShardFile& shard_;
  const ShardedManifest& manifest_;
  File<> file_;
};

/// All sizes, before memory is taken. `expected`: bytes of the model's arrays, or 0.
LOCKSTEP_INLINE void check_shards(const std::string& folder, const ShardedManifest& manifest,
                                  std::uint64_t expected) {
  if (expected > 0) check_part("arrays", manifest.bytes(), manifest.bytes(), size_limit(expected));
  std::uint64_t backed = 0;
  for (const ShardFile& shard : manifest.shards()) {
    check_shard_size(concat({folder, "/", shard.file}), shard);
    backed += shard.bytes;
  }
  if (manifest.bytes() > backed) throw DataError("damaged: the shards are smaller than the arrays");
}

/// What this worker needs of a state.
LOCKSTEP_INLINE TrainingState read_shards(const std::string& folder,
                                          const ShardedManifest& manifest,
                                          const SlotRanges& needs) {
  check_shards(folder, manifest, needs.bytes);
  TrainingState state;
  const std::size_t unit = manifest.element_size();
  const std::size_t first_slot = manifest.count("parameters") + manifest.count("state");
  const auto ranges_of = [&](std::uint64_t array) -> const std::vector<ArraySlice>* {
    if (array < first_slot || array - first_slot >= needs.arrays) return nullptr;
    return &needs.of[(array - first_slot) % needs.of.size()];
  };
  std::vector<SavedArray> arrays(manifest.arrays().begin(), manifest.arrays().end());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::uint64_t count = manifest.elements(i);
    if (const auto* const ranges = ranges_of(i)) {
      count = 0;
      for (const ArraySlice& range : *ranges) count += range.count;
      if (!ranges->empty() && ranges->back().begin + ranges->back().count > manifest.elements(i))
        throw ConfigurationError(concat({"array ", in_quotes(arrays[i].name),
                                         " is smaller than in this model: it belongs to another"}));
    }
    arrays[i].bytes.resize(static_cast<std::size_t>(count) * unit);
  }
  // Calls f(begin, end, place): elements of the slice that are needed, and where they belong.
  const auto each_needed = [&](const ArraySlice& slice, auto f) {
    const auto* const ranges = ranges_of(slice.array);
    if (ranges == nullptr) return f(slice.begin, slice.begin + slice.count, slice.begin);
    std::uint64_t place = 0;
    for (const ArraySlice& range : *ranges) {
      const std::uint64_t begin = std::max(range.begin, slice.begin),
                          end = std::min(range.begin + range.count, slice.begin + slice.count);
      if (begin < end) f(begin, end, place + begin - range.begin);
      place += range.count;
    }
  };
  const auto is_needed = [&](const ArraySlice& slice) {
    bool needed = false;
    each_needed(slice, [&](auto...) { needed = true; });
    return needed;
  };
  const auto take = [&](const ArraySlice& slice, std::span<const std::byte> bytes) {
    each_needed(slice, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t place) {
      std::memcpy(arrays[slice.array].bytes.data() + place * unit,
                  bytes.data() + (begin - slice.begin) * unit, (end - begin) * unit);
    });
  };
  for (const ShardFile& shard : manifest.shards()) {
    const std::string path = concat({folder, "/", shard.file});
    try {
      ShardReader(path, shard, manifest)
          .read(&shard == manifest.shards().data() ? &state : nullptr, is_needed, take);
    } catch (const std::exception& error) {  // cereal's, too
      throw DataError(concat({in_quotes(path), ": ", error.what()}));
    }
  }
  auto array = std::make_move_iterator(arrays.begin());
  const auto move_to = [&](std::vector<SavedArray>& list, std::string_view name) {
    const auto end = array + static_cast<std::ptrdiff_t>(manifest.count(name));
    list.assign(array, end);
    array = end;
  };
  move_to(state.parameters, "parameters");
  move_to(state.state, "state");
  move_to(state.slots, "slots");
  state.has_slot_ranges = needs.arrays > 0;
  check_ranges(state);
  return state;
}

/// Calls f with the text of a manifest. Errors of what it describes name it.
template <class F>
void with_manifest(const std::string& name, F f) {
  const auto text = manifest_text(name);
  if (!text) throw DataError(concat({in_quotes(name), " is not there"}));
  try {
    f(*text);
  } catch (const DataError& error) {
    throw DataError(concat({in_quotes(name), ": ", error.what()}));
  }
}

LOCKSTEP_INLINE TrainingState read_sharded_state(const std::string& path, const SlotRanges& needs) {
  TrainingState state;
  with_manifest(path + manifest_name, [&](const std::string& text) {
    state = read_shards(path, ShardedManifest(text), needs);
  });
  return state;
}

LOCKSTEP_INLINE void check_sharded_state(const std::string& path, std::uint64_t expected) {
  with_manifest(path + manifest_name, [&](const std::string& text) {
    check_shards(path, ShardedManifest(text), expected);
  });
}

LOCKSTEP_INLINE TrainingState read_sharded_state(const std::string& path, const SlotRanges& needs,
                                                 int worker, Exchange exchange,
                                                 bool with_previous) {
  const std::string newest = path + manifest_name;
  std::string failures;
  for (const std::string& name : {newest, previous_generation(newest)}) {
    if (name != newest && !with_previous) break;
    TrainingState state;
    std::string mine;
    try {
      with_manifest(name, [&](const std::string& text) {
        state = read_shards(path, ShardedManifest(text), needs);
        mine = concat({"manifest ", crc32c(std::as_bytes(std::span(text)))});
      });
    } catch (const std::exception& error) {
      mine = concat({"!", worker_on_host(worker), error.what()});
    }
    const std::vector<std::string> all = exchange(mine);
    std::string errors = errors_in(all);
    for (std::size_t other = 1; errors.empty() && other < all.size(); ++other)
      if (all[other] != all.front())
        errors = concat({"worker ", other, " reads another ", in_quotes(name),
                         " than the chief: all hosts must share this folder"});
    if (errors.empty()) {
      if (!failures.empty() && worker == 0)
        log_warning(concat({failures, "; going on from the state before it"}));
      return state;
    }
    failures += (failures.empty() ? "" : "; ") + errors;
  }
  throw DataError(failures);
}

LOCKSTEP_INLINE void remove_sharded_state(const std::string& path) {
  remove_file(previous_generation(path + manifest_name));  // first, or it would be the newest
  remove_file(path + manifest_name);
  remove_other_shards(path);
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != ENOTDIR &&
      errno != EEXIST)
    throw_file_error("cannot remove", path);
}

}}}  // namespace lockstep::detail
