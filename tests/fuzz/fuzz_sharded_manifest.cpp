// libFuzzer: any text as the manifest of a sharded state, with the files of a real one beside it,
// is refused by a DataError whose message is short and printable, or read into a state whose arrays
// have the bytes that their extents ask for. Files elsewhere are never opened.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;

namespace {

/// A folder with the shards that the seeds of this target name.
struct Folder {
  std::string path = "/tmp/fuzz_sharded_manifest.XXXXXX";

  Folder() {
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    ls::detail::StateShare share;
    share.state.scalar = "float32";
    share.state.iterations = 7;
    const std::vector<std::byte> bytes(24, std::byte{1});
    const ls::SavedArray kernel{.name = "dense/kernel", .scalar = "float32", .extents = {2, 3}};
    for (auto* const list : {&share.parameters, &share.slots}) list->push_back(kernel);
    for (auto* const list : {&share.state.parameters, &share.state.slots}) {
      list->push_back(kernel);
      list->back().bytes = bytes;
    }
    share.slices = {{0, 0, 6}, {1, 0, 6}};
    // A name that does not change from run to run: a seed can name it.
    ls::detail::save_shares(path, 0, share, [](const std::string& text) {
      const bool draws = text.find('{') == text.npos && !text.empty();
      return std::vector<std::string>{draws ? "0" : text};
    });
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

void demand_printable(std::string_view message) {
  if (message.size() > 17 * 1024) std::abort();
  for (const char c : message)
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') std::abort();
}

void demand_sizes(const std::vector<ls::SavedArray>& arrays) {
  for (const ls::SavedArray& array : arrays)
    if (ls::detail::array_size(array.extents, ls::detail::scalar_size(array.scalar)) !=
        array.bytes.size())
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::string manifest = folder.path + ls::detail::manifest_name;
  std::ofstream(manifest, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const auto& needs : {ls::detail::SlotRanges{}, ls::detail::no_slots(1)}) try {
      const ls::TrainingState state = ls::detail::read_sharded_state(folder.path, needs);
      demand_sizes(state.parameters);
      demand_sizes(state.state);
      if (needs.arrays == 0) demand_sizes(state.slots);
    } catch (const ls::DataError& error) {
      demand_printable(error.what());
    }
  (void)ls::detail::updates_of_sharded_state(folder.path);
  return 0;
}
