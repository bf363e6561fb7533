// Test cases that cannot run here.
#pragma once

#include <iostream>
#include <string_view>

namespace lockstep_test {

/// Test cases of this program that were skipped. When none has run, main ends with 77, which ctest
/// lists as skipped: so what may be skipped stands in a suite whose name ends with "[needs ...]".
inline int skipped_test_cases = 0;

/// Says that a test case is skipped, and what it needs. Called once by a test case, which then
/// returns.
inline void skip(std::string_view test, std::string_view needs) {
  ++skipped_test_cases;
  std::cout << "SKIPPED: " << test << " (needs " << needs << ")\n";
}

}  // namespace lockstep_test
