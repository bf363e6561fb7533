#pragma once

#include <cstdio>
#include <random>

#include "lockstep/collectives/policies/introduction.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::uint64_t random_cookie() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

LOCKSTEP_INLINE std::array<char, 40> boot_id() {
  std::array<char, 40> text{};
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    (void)!std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
  }
  return text;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
