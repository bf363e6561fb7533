#include "lockstep/kernels/vector.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("vector: loads, stores and adds up its lanes, at any alignment", T, float,
                   double) {
  for_each_instruction_set([] {
    const Array<T> from(40), to(40, T(0));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i);
    T sum = 0;
    const std::size_t lanes = kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
      kernels::Vector<T, Isa> v, w{};
      kernels::load(v, from.data() + 1);
      kernels::accumulate(w, v, T(2));
      kernels::store(to.data() + 3, w);
      sum = kernels::sum_of_lanes<T>(v);
      return kernels::lanes<T, Isa>;
    });
    CHECK(sum == static_cast<T>(lanes * (lanes + 1) / 2));
    for (std::size_t i = 0; i < to.size(); ++i)
      CHECK(to[i] == (i >= 3 && i < 3 + lanes ? static_cast<T>(2 * (i - 2)) : T(0)));
  });
}

TEST_CASE_TEMPLATE("vector: the sum of lanes has the bits of adding halves", T, float, double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    const Array<T> from = random_array<T>(16, random);
    std::array<T, 16> halves{};
    T sum = 0;
    const std::size_t lanes = kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
      kernels::Vector<T, Isa> v;
      kernels::load(v, from.data());
      sum = kernels::sum_of_lanes<T>(v);
      return kernels::lanes<T, Isa>;
    });
    std::copy_n(from.data(), lanes, halves.begin());
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) halves[i] += halves[i + half];
    CHECK(sum == halves[0]);
  });
}
