// How values travel between ranks.
#pragma once

#include <cstdint>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The type of gradients on the wire. Sums are formed in float32 in any case, a status block is
/// never rounded, and all ranks hold equal bits.
enum class Wire : std::uint8_t {
  native,    ///< as they are
  bfloat16,  ///< float32's range, 8 bits of precision; half the bytes
  float16,   ///< IEEE half: 11 bits of precision; infinite beyond 65504, less precise below 6e-5
};

[[nodiscard]] constexpr const char* to_string(Wire wire) noexcept {
  return wire == Wire::bfloat16 ? "bfloat16" : wire == Wire::float16 ? "float16" : "native";
}

}  // namespace lockstep::inline LOCKSTEP_ABI
