// libFuzzer: any bytes are refused by a DataError, or decoded into a state whose arrays have the
// bytes that their extents ask for, and which comes back when it is written again. Each input is
// tried as it is, and with right checksums, so that the bytes behind them are reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"

namespace ls = lockstep;

namespace {

/// Makes sizes and checksums of the header right.
void seal(std::vector<std::byte>& bytes) {
  constexpr std::size_t header = 36;  // as archive.hpp has it
  if (bytes.size() < header) return;
  const auto rest = std::span(bytes).subspan(header);
  const auto manifest =
      rest.first(std::min<std::size_t>(ls::detail::get_number(bytes.data() + 12, 8), rest.size()));
  ls::detail::put_number(bytes.data() + 12, manifest.size(), 8);
  ls::detail::put_number(bytes.data() + 20, rest.size() - manifest.size(), 8);
  ls::detail::put_number(bytes.data() + 28, ls::crc32c(manifest), 4);
  ls::detail::put_number(bytes.data() + 32, ls::crc32c(std::span(bytes).first(32)), 4);
}

void demand_sizes(const std::vector<ls::SavedArray>& arrays) {
  for (const ls::SavedArray& array : arrays)
    if (ls::detail::array_size(array.extents, ls::detail::scalar_size(array.scalar)) !=
        array.bytes.size())
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  for (const bool sealed : {false, true}) {
    if (sealed) seal(bytes);
    try {
      const ls::TrainingState state = ls::decode_checkpoint(bytes);
      for (const auto* const arrays : {&state.parameters, &state.state, &state.slots})
        demand_sizes(*arrays);
      const auto first = ls::encode_checkpoint(state);
      if (ls::encode_checkpoint(ls::decode_checkpoint(first)) != first) std::abort();
    } catch (const ls::DataError&) {
    }
  }
  return 0;
}
