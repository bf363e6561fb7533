// The instruction sets that kernels are compiled for, and the one in use.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Levels of instruction sets, lowest first. Results depend on the level, so all ranks use the
/// lowest that one of them has.
enum class InstructionSet : int {
  /// what the translation unit is compiled for: SSE2 on a plain x86-64 build, NEON on aarch64
  baseline = 0,
  avx2 = 1,    ///< AVX2 and FMA: x86-64-v3
  avx512 = 2,  ///< AVX-512 F, BW, DQ, VL: x86-64-v4
  /// the same with AVX512_BF16, for products of bfloat16: all others have the bits of avx512
  avx512_bf16 = 3,
};

[[nodiscard]] constexpr std::string_view to_string(InstructionSet level) noexcept {
  constexpr std::string_view names[] = {"baseline", "avx2", "avx512", "avx512_bf16"};
  const auto index = static_cast<std::size_t>(level);
  return index < std::size(names) ? names[index] : "an unknown level";
}

namespace kernels {

// Tags: what a kernel, as a template, knows about the instruction set that it is compiled for.

struct Baseline {
  static constexpr InstructionSet level = InstructionSet::baseline;
  static constexpr std::size_t vector_bytes = 16;
#if defined(__aarch64__) || defined(__AVX512VL__)
  static constexpr std::size_t registers = 32;
#else
  static constexpr std::size_t registers = 16;
#endif
};

struct Avx2 {
  static constexpr InstructionSet level = InstructionSet::avx2;
  static constexpr std::size_t vector_bytes = 32;
  static constexpr std::size_t registers = 16;
};

struct Avx512 {  // avx512_bf16 has no tag: see bfloat16_product.hpp
  static constexpr InstructionSet level = InstructionSet::avx512;
  static constexpr std::size_t vector_bytes = 64;
  static constexpr std::size_t registers = 32;
};

/// The highest level that this machine has.
[[nodiscard]] InstructionSet supported_instruction_set() noexcept;

/// The level that `text` names. Throws ConfigurationError, which names `source`.
[[nodiscard]] InstructionSet parse_instruction_set(std::string_view text, std::string_view source);

/// The level that kernels use from now on: at first the highest that this machine has, at most the
/// environment's LOCKSTEP_MAX_ISA=baseline|avx2|avx512|avx512_bf16, which is read once.
/// Throws ConfigurationError when that names no level, at the first call; a program that wants the
/// message early calls this early.
[[nodiscard]] InstructionSet instruction_set();

/// Sets the level for the whole process: ranks agree on the lowest in the handshake, and tests
/// force each in turn. Not while kernels run in other threads, as one step would then mix two
/// levels. Throws ConfigurationError when this machine has no such level.
void set_instruction_set(InstructionSet level);

}  // namespace kernels
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/kernels/instruction_set.ipp"
#endif
