// Compile-time configuration: version, ABI namespace, header-only or compiled.
#pragma once

#include <version>  // the ABI of std::string

// Every header includes this one before its declarations, so that an older language is the
// compiler's first error. The second is a header that does not exist: compilers stop there.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) <= 201703L
#error "lockstep needs C++20: compile with -std=c++20 (in CMake, linking lockstep::lockstep does)"
#define LOCKSTEP_STOP "lockstep stops the compiler here, see the error above"
#include LOCKSTEP_STOP
#endif

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 2
#define LOCKSTEP_VERSION_PATCH 0

// Everything lives in an inline namespace named after what all parts of a program must have in
// common: the instruction set that a translation unit may use, the ABI of std::string, sanitizers.
// Otherwise the linker would keep one of two copies of an inline function, and a program with one
// file built with -march=native could run AVX-512 code on a machine that has none. So it names the
// namespace that is missing.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LOCKSTEP_ABI_ISA x86_avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define LOCKSTEP_ABI_ISA x86_avx2
#elif defined(__AVX__)
#define LOCKSTEP_ABI_ISA x86_avx
#else
#define LOCKSTEP_ABI_ISA baseline
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define LOCKSTEP_ABI_STRING _old_string
#else
#define LOCKSTEP_ABI_STRING
#endif
#if !defined(__has_feature)
#define __has_feature(feature) 0
#define LOCKSTEP_HAS_FEATURE_DEFINED
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define LOCKSTEP_ABI_SANITIZER _asan
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define LOCKSTEP_ABI_SANITIZER _tsan
#else
#define LOCKSTEP_ABI_SANITIZER
#endif
#if defined(LOCKSTEP_HAS_FEATURE_DEFINED)
#undef __has_feature
#undef LOCKSTEP_HAS_FEATURE_DEFINED
#endif
#define LOCKSTEP_ABI_JOINED(isa, string, sanitizer) abi_0_##isa##string##sanitizer
#define LOCKSTEP_ABI_JOIN(isa, string, sanitizer) LOCKSTEP_ABI_JOINED(isa, string, sanitizer)
#define LOCKSTEP_ABI \
  LOCKSTEP_ABI_JOIN(LOCKSTEP_ABI_ISA, LOCKSTEP_ABI_STRING, LOCKSTEP_ABI_SANITIZER)

// From headers alone, everything is inline. With LOCKSTEP_COMPILED, what is no template of the
// user's types comes from a library, whose sources are src/*.cpp: a program then parses
// declarations, and a header does not include its .ipp. The library must be built with the same
// instruction-set flags as its user (else the linker names the namespace that is missing).
//
// The sources are compiled for float. A program that names double compiles those that hold
// templates once more with LOCKSTEP_DOUBLE_SOURCE, and has LOCKSTEP_DOUBLE defined (CMake's
// lockstep::double does both). There, what is no template is inline again.
#if defined(LOCKSTEP_SOURCE) && !defined(LOCKSTEP_COMPILED)
#define LOCKSTEP_COMPILED 1
#endif
#if defined(LOCKSTEP_DOUBLE_SOURCE) && !defined(LOCKSTEP_DOUBLE)
#define LOCKSTEP_DOUBLE 1
#endif

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_DOUBLE_SOURCE)
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

// At the end of an .ipp: an instance of its templates that the library holds, for LOCKSTEP_REAL
// (float, and then double); the second is for what has neither in its type.
//   LOCKSTEP_INSTANCE(void f(std::span<LOCKSTEP_REAL>));
#if defined(LOCKSTEP_DOUBLE_SOURCE)
#define LOCKSTEP_REAL double
#define LOCKSTEP_INSTANCE(...) template __VA_ARGS__
#define LOCKSTEP_INSTANCE_ONCE(...) static_assert(true)
#elif defined(LOCKSTEP_SOURCE)
#define LOCKSTEP_REAL float
#define LOCKSTEP_INSTANCE(...) template __VA_ARGS__
#define LOCKSTEP_INSTANCE_ONCE(...) template __VA_ARGS__
#else
#define LOCKSTEP_INSTANCE(...) static_assert(true)
#define LOCKSTEP_INSTANCE_ONCE(...) static_assert(true)
#endif

// In a header, below a template whose body stands in it: an instance that the library holds, so
// that programs do not compile it. (Of those in kernels, layers and network, src/kernels.cpp makes
// definitions.)
#if !defined(LOCKSTEP_COMPILED)
#define LOCKSTEP_EXTERN(...) static_assert(true)
#define LOCKSTEP_EXTERN_DOUBLE(...) static_assert(true)
#elif defined(LOCKSTEP_KERNELS_SOURCE) && defined(LOCKSTEP_DOUBLE_SOURCE)
#define LOCKSTEP_EXTERN(...) extern template __VA_ARGS__
#define LOCKSTEP_EXTERN_DOUBLE(...) template __VA_ARGS__
#elif defined(LOCKSTEP_KERNELS_SOURCE)
#define LOCKSTEP_EXTERN(...) template __VA_ARGS__
#define LOCKSTEP_EXTERN_DOUBLE(...) static_assert(true)
#elif defined(LOCKSTEP_DOUBLE)
#define LOCKSTEP_EXTERN(...) extern template __VA_ARGS__
#define LOCKSTEP_EXTERN_DOUBLE(...) extern template __VA_ARGS__
#else
#define LOCKSTEP_EXTERN(...) extern template __VA_ARGS__
#define LOCKSTEP_EXTERN_DOUBLE(...) static_assert(true)
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {

inline constexpr int version_major = LOCKSTEP_VERSION_MAJOR;
inline constexpr int version_minor = LOCKSTEP_VERSION_MINOR;
inline constexpr int version_patch = LOCKSTEP_VERSION_PATCH;

}}  // namespace lockstep
