// Compile-time configuration: version, ABI namespace, header-only or compiled.
#pragma once

// Every header includes this one before its own declarations, so that an older language is the
// compiler's first error. The second is a header that does not exist: compilers stop there.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) <= 201703L
#error "lockstep needs C++20: compile with -std=c++20 (in CMake, linking lockstep::lockstep does)"
#define LOCKSTEP_STOP "lockstep stops the compiler here, see the error above"
#include LOCKSTEP_STOP
#endif

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0

// Everything lives in an inline namespace named after the instruction set that the translation unit
// may use. Otherwise the linker would keep one of two copies of an inline function, and a program
// with one file built with -march=native could run AVX-512 code on a machine that has none.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LOCKSTEP_ABI abi_0_x86_avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define LOCKSTEP_ABI abi_0_x86_avx2
#elif defined(__AVX__)
#define LOCKSTEP_ABI abi_0_x86_avx
#else
#define LOCKSTEP_ABI abi_0_baseline
#endif

// With LOCKSTEP_COMPILED the parts that are no templates come from the library target
// lockstep::compiled, which must be built with the same instruction-set flags as its user (else the
// linker names the namespace that is missing).
#if !defined(LOCKSTEP_COMPILED)
#define LOCKSTEP_INLINE inline
#elif !defined(LOCKSTEP_INLINE)  // tests compile an .ipp by itself, and then as inline
#define LOCKSTEP_INLINE
#endif

// A virtual member that an .ipp defines is declared with this. Without it, compilers make code of
// its class in every program, whether the program uses the class or not.
#if defined(LOCKSTEP_COMPILED)
#define LOCKSTEP_INLINE_VIRTUAL
#else
#define LOCKSTEP_INLINE_VIRTUAL inline
#endif

// Templates whose arguments are nearly always the same are instantiated in lockstep::compiled too:
//   LOCKSTEP_INSTANCE(void f<float>(const float*));
// (Its sources, which cmake/compiled/write_source.cmake writes, make definitions of them.)
#if defined(LOCKSTEP_COMPILED)
#define LOCKSTEP_INSTANCE(...) extern template __VA_ARGS__
#else
#define LOCKSTEP_INSTANCE(...) static_assert(true)
#endif

namespace lockstep::inline LOCKSTEP_ABI {

inline constexpr int version_major = LOCKSTEP_VERSION_MAJOR;
inline constexpr int version_minor = LOCKSTEP_VERSION_MINOR;
inline constexpr int version_patch = LOCKSTEP_VERSION_PATCH;

}  // namespace lockstep::inline LOCKSTEP_ABI
