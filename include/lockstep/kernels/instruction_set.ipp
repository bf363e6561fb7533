#pragma once

#include <atomic>
#include <cstdlib>
#include <string>

#include "lockstep/kernels/instruction_set.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

LOCKSTEP_INLINE InstructionSet supported_instruction_set() noexcept {
#if defined(__x86_64__)
  // (__builtin_cpu_supports also asks whether the operating system saves the wide registers.)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return __builtin_cpu_supports("avx512bf16") ? InstructionSet::avx512_bf16
                                                : InstructionSet::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
#endif
  return InstructionSet::baseline;
}

LOCKSTEP_INLINE InstructionSet parse_instruction_set(std::string_view text,
                                                     std::string_view source) {
  for (const InstructionSet level : {InstructionSet::baseline, InstructionSet::avx2,
                                     InstructionSet::avx512, InstructionSet::avx512_bf16})
    if (text == to_string(level)) return level;
  throw ConfigurationError(std::string(source) + " is '" + std::string(text) +
                           "', which is no instruction set; use baseline, avx2, avx512 or "
                           "avx512_bf16");
}

namespace detail {

LOCKSTEP_INLINE InstructionSet initial_instruction_set() {
  const InstructionSet supported = supported_instruction_set();
  const char* text = std::getenv("LOCKSTEP_MAX_ISA");
  if (text == nullptr || *text == '\0') return supported;
  const InstructionSet maximum =
      parse_instruction_set(text, "the environment variable LOCKSTEP_MAX_ISA");
  return maximum < supported ? maximum : supported;
}

LOCKSTEP_INLINE std::atomic<InstructionSet>& instruction_set_in_force() {
  static std::atomic<InstructionSet> level{initial_instruction_set()};
  return level;
}

}  // namespace detail

LOCKSTEP_INLINE InstructionSet instruction_set() {
  return detail::instruction_set_in_force().load(std::memory_order_relaxed);
}

LOCKSTEP_INLINE void set_instruction_set(InstructionSet level) {
  if (level > supported_instruction_set())
    throw ConfigurationError("instruction set " + std::string(to_string(level)) +
                             " is not available on this machine; its highest is " +
                             std::string(to_string(supported_instruction_set())));
  detail::instruction_set_in_force().store(level, std::memory_order_relaxed);
}

}}}  // namespace lockstep::kernels
