// Which sanitizer a test program is built with.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_TEST_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define LOCKSTEP_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOCKSTEP_TEST_ASAN 1
#elif __has_feature(thread_sanitizer)
#define LOCKSTEP_TEST_TSAN 1
#endif
#endif
#if defined(LOCKSTEP_TEST_ASAN) || defined(LOCKSTEP_TEST_TSAN)
#define LOCKSTEP_TEST_SANITIZED 1
#endif

namespace lockstep_test {

/// A sanitizer takes memory and time, and opens files itself to look at objects.
#ifdef LOCKSTEP_TEST_SANITIZED
inline constexpr bool has_sanitizer = true;
#else
inline constexpr bool has_sanitizer = false;
#endif

}  // namespace lockstep_test
