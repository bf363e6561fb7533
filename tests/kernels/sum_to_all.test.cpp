#include "lockstep/kernels/sum_to_all.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"
#include "support/instruction_sets.hpp"

using lockstep::kernels::sum_to_all;

namespace {

template <class T>
void check_sums() {
  for (const std::size_t count : {2u, 3u, 4u, 7u})
    for (const std::size_t n : {0u, 1u, 3u, 15u, 16u, 17u, 127u, 128u, 1027u}) {
      CAPTURE(count);
      CAPTURE(n);
      std::vector<std::vector<T>> arrays(count, std::vector<T>(n + 1));
      lockstep::RandomStream random{lockstep::RandomKey(n)};
      for (auto& array : arrays)
        for (T& value : array) value = static_cast<T>(random.normal());
      if (n > 2) arrays[1][2] = std::numeric_limits<T>::infinity();
      std::vector<T> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        expected[i] = arrays[0][i];
        for (std::size_t r = 1; r < count; ++r) expected[i] = expected[i] + arrays[r][i];
      }
      std::vector<T*> pointers;
      for (auto& array : arrays) pointers.push_back(array.data());
      const std::vector<T> beyond{arrays[0][n], arrays[1][n]};
      sum_to_all<T>(pointers.data(), count, n);
      for (const auto& array : arrays)
        CHECK((n == 0 || std::memcmp(array.data(), expected.data(), n * sizeof(T)) == 0));
      CHECK(std::vector<T>{arrays[0][n], arrays[1][n]} == beyond);
    }
}

}  // namespace

TEST_CASE(
    "sum_to_all: every array gets the sums, formed from the first array on, and nothing beyond its "
    "end") {
  lockstep_test::for_each_instruction_set([] {
    check_sums<float>();
    check_sums<double>();
  });
}
