// A hint to the processor.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// In the body of a loop that waits for another thread: leaves more of the core to it.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
