// libFuzzer: a part of an array of HDF5's, with any filters, is refused by a DataError or becomes
// as many bytes as it must.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "lockstep/checkpoint/inflate.hpp"
#include "lockstep/core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::detail::ChunkFilter;
  constexpr std::size_t head = 6;
  if (size < head) return 0;
  std::vector<ChunkFilter> filters;
  for (unsigned i = 0; i < data[0] % 5U; ++i)  // the bit says which
    filters.push_back((data[1] >> i & 1) != 0 ? ChunkFilter::shuffle : ChunkFilter::deflate);
  const std::size_t element = data[3] % 8U + 1, expected = data[4] + 256U * data[5];
  try {
    const auto bytes =
        lockstep::detail::undo_filters("a", std::as_bytes(std::span(data + head, size - head)),
                                       filters, data[2], element, expected);
    if (bytes.size() != expected) std::abort();
  } catch (const lockstep::DataError&) {
  }
  return 0;
}
