// Sharded states as files. That training goes on from them: tests/training/state_share.test.cpp.
#include "lockstep/checkpoint/sharded_state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "checkpoint/damage.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::Exchange;
using ls::detail::SlotRanges;
using ls::detail::StateShare;

namespace {

/// Calls f(worker, exchange) on a thread for each worker; returns what each threw.
std::vector<std::string> together(int workers, const std::function<void(int, Exchange)>& f) {
  Board board(workers);
  std::vector<std::string> failures(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      const auto exchange = [&](const std::string& mine) {
        const auto all = board.gather(worker, std::as_bytes(std::span(mine)));
        std::vector<std::string> texts;
        for (const auto& bytes : *all)
          texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return texts;
      };
      try {
        f(worker, exchange);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(worker)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

ls::TrainingState whole_state() {
  ls::TrainingState state = full_state();
  state.objects.clear();
  for (auto* arrays : {&state.state, &state.slots})
    for (ls::SavedArray& array : *arrays) array.scalar = state.scalar;
  return state;
}

/// A state's first elements are worker 0's, and each array is cut at another place.
StateShare share_of(const ls::TrainingState& whole, int worker) {
  StateShare share;
  if (worker == 0) share.state = whole;
  std::uint64_t number = 0;
  const auto add = [&](const std::vector<ls::SavedArray>& arrays, std::vector<ls::SavedArray>& mine,
                       std::vector<ls::SavedArray>& shapes) {
    mine.clear();
    for (const ls::SavedArray& array : arrays) {
      const std::uint64_t elements = array.bytes.size() / 4;
      const std::uint64_t cut = std::min<std::uint64_t>(elements, 1 + number);
      const std::uint64_t begin = worker == 0 ? 0 : cut, end = worker == 0 ? cut : elements;
      if (begin < end) {
        const auto at = [&](std::uint64_t element) {
          return array.bytes.begin() + static_cast<std::ptrdiff_t>(4 * element);
        };
        mine.push_back({.name = array.name,
                        .scalar = whole.scalar,
                        .extents = {end - begin},
                        .bytes = {at(begin), at(end)}});
        share.slices.push_back({number, begin, end - begin});
      }
      shapes.push_back({.name = array.name, .scalar = whole.scalar, .extents = array.extents});
      ++number;
    }
  };
  add(whole.parameters, share.state.parameters, share.parameters);
  add(whole.state, share.state.state, share.untrained);
  add(whole.slots, share.state.slots, share.slots);
  return share;
}

void save(const std::string& path, const ls::TrainingState& state) {
  for (const std::string& failure : together(2, [&](int worker, Exchange exchange) {
         ls::detail::save_shares(path, worker, share_of(state, worker), exchange);
       }))
    REQUIRE(failure == "");
}

ls::TrainingState read(const std::string& path, const SlotRanges& needs = {},
                       bool with_previous = false) {
  return ls::detail::read_sharded_state(
      path, needs, 0, [](std::string mine) { return std::vector{std::move(mine)}; }, with_previous);
}

std::string refusal(const std::string& path) {
  try {
    (void)read(path);
  } catch (const ls::DataError& error) {
    return error.what();
  }
  return "none";
}

std::string shard_of(const std::string& path, int worker) {
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().filename().string().starts_with("shard-" + std::to_string(worker)))
      return entry.path().string();
  return "none";
}

std::vector<std::byte> bytes_of(const std::string& path) { return *ls::read_file(path); }

}  // namespace

TEST_CASE("sharded state: what two workers have written is what one, or three, read") {
  const TemporaryFolder folder;
  const std::string path = folder.path("deep/state");
  const ls::TrainingState state = whole_state();
  save(path, state);
  CHECK(ls::detail::is_sharded_state(path));
  CHECK(read(path) == state);
  for (const std::string& failure : together(3, [&](int worker, Exchange exchange) {
         if (ls::detail::read_sharded_state(path, {}, worker, exchange, false) != state)
           throw ls::Error("another state");
       }))
    CHECK(failure == "");
}

TEST_CASE("sharded state: of the slots a worker reads the ranges that it needs, from any shard") {
  const TemporaryFolder folder;
  const ls::TrainingState state = whole_state();
  save(folder.path("state"), state);
  for (std::uint64_t begin = 0; begin < 6; ++begin)
    for (std::uint64_t end = begin + 1; end <= 6; ++end) {
      const auto found =
          read(folder.path("state"), {.arrays = 1, .of = {{{0, begin, end - begin}}}});
      CHECK(found.has_slot_ranges);
      const auto& bytes = state.slots[0].bytes;
      CHECK(found.slots[0].bytes ==
            std::vector<std::byte>(bytes.begin() + static_cast<std::ptrdiff_t>(4 * begin),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(4 * end)));
      CHECK(found.parameters == state.parameters);
    }
  CHECK(read(folder.path("state"), {.arrays = 1, .of = {{}}}).slots[0].bytes.empty());
  // Of two ranges, the bytes stand one after the other.
  const auto found = read(folder.path("state"), {.arrays = 1, .of = {{{0, 0, 1}, {0, 5, 1}}}});
  CHECK(found.slots[0].bytes.size() == 8);
}

TEST_CASE("sharded state: no change of a manifest or a shard goes unnoticed") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  const ls::TrainingState state = whole_state();
  save(path, state);
  for (const std::string& file : {path + "/manifest.json", shard_of(path, 0), shard_of(path, 1)}) {
    CAPTURE(file);
    const std::vector<std::byte> bytes = bytes_of(file);
    const auto decode = [&](std::span<const std::byte> changed) {
      ls::write_file_atomically(file, changed);
      return read(path);
    };
    const bool is_manifest = file.ends_with(".json");
    for (std::size_t size = 0; size + 3 < bytes.size(); size += 1 + size / 20)
      CHECK_FALSE(decoded(decode, std::span(bytes).first(size)).has_value());
    lockstep::RandomStream random{lockstep::RandomKey(1)};
    int silent = 0;
    for (int round = 0; round < 400; ++round) {
      std::vector<std::byte> changed = bytes;
      changed[random.below(changed.size())] ^= static_cast<std::byte>(1 + random.below(255));
      const auto result = decoded(decode, changed);
      // (A manifest may name an array otherwise: shapes and checksums are those of the shards.)
      if (result && *result != state) ++silent;
    }
    CHECK(silent <= (is_manifest ? 20 : 0));
    ls::write_file_atomically(file, bytes);
  }
  CHECK(read(path) == state);
}

TEST_CASE(
    "sharded state: a missing, truncated, damaged or foreign shard is named with the remedy") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state"), other = folder.path("other");
  ls::TrainingState state = whole_state();
  save(path, state);
  state.parameters[0].bytes[4] ^= std::byte{1};
  save(other, state);
  const std::string shard = shard_of(path, 1);
  const std::vector<std::byte> bytes = bytes_of(shard);

  ls::write_file_atomically(shard, bytes_of(shard_of(other, 1)));
  CHECK(contains(refusal(path), "'" + shard + "': it is not the file of this manifest"));
  auto changed = bytes;
  changed.back() ^= std::byte{1};
  ls::write_file_atomically(shard, changed);
  CHECK(contains(refusal(path), "'" + shard + "': damaged: the checksum of elements"));
  CHECK(contains(refusal(path), "copy the file anew"));
  ls::write_file_atomically(shard, std::span(bytes).first(bytes.size() - 1));
  CHECK(contains(refusal(path), "'" + shard + "' has " + std::to_string(bytes.size() - 1) +
                                    " bytes, and " + std::to_string(bytes.size()) +
                                    " were written"));
  ls::remove_file(shard);
  CHECK(contains(refusal(path), "'" + shard + "' is not there: worker 1 on host "));
  ls::remove_file(path + "/manifest.json");
  CHECK(contains(refusal(path), "manifest.json' is not there"));
}

TEST_CASE("sharded state: sizes are checked before memory is taken") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  save(path, whole_state());
  const auto bytes = bytes_of(path + "/manifest.json");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    for (std::size_t at = 0; (at = changed.find(from, at)) != changed.npos; at += to.size())
      changed.replace(at, from.size(), to);
    REQUIRE(changed != text);
    ls::write_file_atomically(path + "/manifest.json", std::as_bytes(std::span(changed)));
    return refusal(path);
  };
  CHECK(contains(with("\"shape\": [2,3]", "\"shape\": [2,3000000000000]"), "not exactly once"));
  CHECK(contains(with("\"shape\": [2,3]", "\"shape\": [9223372036854775807,3]"), "the shape of"));
  CHECK(contains(with("[0,0,1]", "[0,0,2]"), "not exactly once"));
  CHECK(contains(with("\"version\": 1", "\"version\": 2"), "use a newer lockstep"));
  CHECK(contains(with("shard-1-", "shard-/../"), "the entry of shard"));
  CHECK(contains(with("shard-1-", "../shard-1-"), "the entry of shard"));
  CHECK(contains(with("shard-1-", "shard-0-"), "damaged: it names 'shard-0-of-2-"));
  CHECK(contains(with("\"scalar\": \"float32\"", "\"scalar\": \"int8\""), "unknown scalar type"));
  CHECK(contains(with("lockstep sharded state", "something else"), "no manifest"));
  ls::write_file_atomically(path + "/manifest.json", bytes);
  CHECK(refusal(path) == "none");
  try {  // of a far smaller model
    (void)read(path, {.bytes = 1});
  } catch (const ls::DataError&) {
    FAIL("the limit leaves room for a somewhat larger file");
  }
}

TEST_CASE(
    "sharded state: when a worker cannot write, or the chief does not see a file, the former "
    "state stays, and all say so") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  const ls::TrainingState former = whole_state();
  save(path, former);
  ls::TrainingState state = former;
  ++state.iterations;
  ls::write_file_atomically(folder.path("file"), {});
  for (const bool is_blocked : {true, false}) {
    for (const std::string& failure : together(2, [&](int worker, Exchange exchange) {
           const bool is_other = is_blocked && worker == 1;
           ls::detail::ShardedSave one(is_other ? folder.path("file/state") : path, worker,
                                       exchange);
           one.write(share_of(state, worker));
           if (!is_blocked && worker == 1) one.abandon();  // its disk is not the chief's
           const std::string error = one.commit(ls::FormerFile::kept, exchange);
           if (!error.empty()) throw ls::Error(error);
         })) {
      CHECK(contains(failure, is_blocked ? "worker 1 on host " : "worker 0 on host "));
      CHECK(contains(failure, is_blocked ? "cannot make the folder" : "shard-1-of-2-"));
    }
    CHECK(read(path) == former);
  }
  save(path, state);  // removes what was left
  CHECK(read(path) == state);
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 3);
}

TEST_CASE(
    "sharded state: the former one is kept when asked to, and taken where the newest is bad") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  ls::TrainingState state = whole_state();
  for (int round = 0; round < 3; ++round) {
    ++state.iterations;
    together(2, [&](int worker, Exchange exchange) {
      ls::detail::ShardedSave one(path, worker, exchange);
      one.write(share_of(state, worker));
      REQUIRE(one.commit(ls::FormerFile::kept, exchange) == "");
    });
  }
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 6);  // of two states
  CHECK(read(path, {}, true) == state);
  ls::write_file_atomically(path + "/manifest.json", {});
  const CapturedStderr captured;
  --state.iterations;
  CHECK(read(path, {}, true) == state);
  CHECK(contains(captured.text(), "manifest.json': it is no JSON"));
  CHECK_THROWS_AS((void)read(path), ls::DataError);
  ls::detail::remove_sharded_state(path);
  CHECK_FALSE(std::filesystem::exists(path));
  ls::detail::remove_sharded_state(path);
}

TEST_CASE("sharded state: while a manifest cannot be read, no shard is removed that it may name") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  ls::TrainingState state = whole_state();
  save(path, state);
  const std::string former = path + "/manifest.json.previous";
  std::filesystem::create_symlink("manifest.json.previous", former);  // to itself: an error
  ++state.iterations;
  save(path, state);
  CHECK(read(path) == state);
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 6);
  std::filesystem::remove(former);
  ls::write_file_atomically(former, {});  // damaged, of no use
  ++state.iterations;
  save(path, state);
  CHECK(read(path) == state);
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 4);
}

TEST_CASE("sharded state: a file that the manifest may name stays when a peer is lost meanwhile") {
  const TemporaryFolder folder;
  const std::string path = folder.path("state");
  const ls::TrainingState state = whole_state();
  for (const std::string& failure : together(2, [&](int worker, Exchange exchange) {
         ls::detail::ShardedSave one(path, worker, exchange);
         one.write(share_of(state, worker));
         int calls = 0;
         const auto failing = [&](const std::string& mine) {
           if (calls++ == 1) throw ls::Error("a peer is lost");  // after the chief has written
           return exchange(mine);
         };
         try {
           (void)one.commit(ls::FormerFile::kept, failing);
         } catch (const ls::Error&) {
           one.abandon();
           throw;
         }
       }))
    CHECK(failure == "a peer is lost");
  CHECK(read(path) == state);
}
