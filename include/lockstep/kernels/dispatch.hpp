// Runs a piece of code, compiled once for each instruction set, for the one in use.
#pragma once

#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/instruction_set.hpp"

// Kernels are templates on a tag (Baseline, Avx2, Avx512) over the compiler's vector extension. A
// function gets its instruction set from a target attribute, which cannot depend on a template
// parameter and which a lambda does not inherit; but code that is inlined takes over the attribute
// of the function that it lands in, and both g++ and clang++ split wide vectors only after that.
// Hence the construction: three entry functions with the attribute, and everything below them
// always_inline down to the last helper that touches a vector. A plain `inline` helper may stay a
// separate function and at 128 bits.
//
// Vectors are passed by reference: passing them by value between functions whose instruction sets
// differ, as long as they are not inlined yet, is a warning in g++ and an error in clang++.

/// For every function and lambda that runs below kernels::dispatch:
///   LOCKSTEP_KERNEL void helper(...) {...}      [&](auto& x) LOCKSTEP_KERNEL_LAMBDA {...}
#define LOCKSTEP_KERNEL __attribute__((always_inline)) inline
#define LOCKSTEP_KERNEL_LAMBDA __attribute__((always_inline))

/// In namespace lockstep::kernels, for a kernel that is a type and returns nothing: Kernel<T, ...>
/// for each T is compiled once in the library, and no more by the programs that dispatch it.
#define LOCKSTEP_KERNEL_INSTANCES(Kernel, ...)                                     \
  LOCKSTEP_EXTERN(void dispatch<Kernel<float __VA_OPT__(, ) __VA_ARGS__>>(         \
      const Kernel<float __VA_OPT__(, ) __VA_ARGS__>&));                           \
  LOCKSTEP_EXTERN_DOUBLE(void dispatch<Kernel<double __VA_OPT__(, ) __VA_ARGS__>>( \
      const Kernel<double __VA_OPT__(, ) __VA_ARGS__>&))

#if defined(__clang__)
// Else clang++ -march=native splits 512-bit vectors on processors for which it prefers 256 bits.
#define LOCKSTEP_VECTOR_WIDTH(bits) __attribute__((min_vector_width(bits)))
#else
#define LOCKSTEP_VECTOR_WIDTH(bits)
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// What a kernel returns, without a look at the body of one that says it.
template <class F>
struct KernelResult {
  using Type = decltype(std::declval<const F&>().template operator()<Baseline>());
};

template <class F>
__attribute__((noinline)) typename KernelResult<F>::Type run_baseline(const F& f) {
  return f.template operator()<Baseline>();
}

#if defined(__x86_64__)
template <class F>
__attribute__((noinline, target("avx2,fma"))) LOCKSTEP_VECTOR_WIDTH(256)
    typename KernelResult<F>::Type run_avx2(const F& f) {
  return f.template operator()<Avx2>();
}

template <class F>
__attribute__((noinline, target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
LOCKSTEP_VECTOR_WIDTH(512) typename KernelResult<F>::Type run_avx512(const F& f) {
  return f.template operator()<Avx512>();
}
#endif

}  // namespace detail

/// Calls `f.template operator()<Isa>()` with the tag of the instruction set in use, from a
/// function that is compiled for it, and returns what f returns (a scalar or nothing). f is
/// compiled three times, so let it be lean. Throws ConfigurationError when LOCKSTEP_MAX_ISA is
/// wrong, and what f throws.
/// @code
/// // my_kernel is LOCKSTEP_KERNEL.
/// kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA { my_kernel<Isa>(x, y, n); });
/// @endcode
template <class F>
typename detail::KernelResult<F>::Type dispatch(const F& f) {
#if defined(__x86_64__)
  switch (instruction_set()) {
    case InstructionSet::avx512:
    case InstructionSet::avx512_bf16:
      return detail::run_avx512(f);
    case InstructionSet::avx2:
      return detail::run_avx2(f);
    case InstructionSet::baseline:
      break;
  }
#endif
  return detail::run_baseline(f);
}

}}}  // namespace lockstep::kernels
