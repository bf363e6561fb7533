// libFuzzer: any bytes are refused by a DataError, or decoded into arrays that come back when they
// are written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto arrays = lockstep::decode_safetensors(std::as_bytes(std::span(data, size)));
    if (lockstep::decode_safetensors(lockstep::encode_safetensors(arrays)) != arrays) std::abort();
  } catch (const lockstep::DataError&) {
  }
  return 0;
}
