#include "lockstep/kernels/softmax_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/softmax.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE_TEMPLATE("softmax by rows: the bits of softmax", T, float, double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    constexpr std::size_t features = 7, samples = 48, stride = 64;
    const Array<T> x = random_array<T>(features * stride, random);
    const Array<T> y(x.size(), T(7)), expected(x.size(), T(7)), factors(samples);
    const Array<T> largest(samples), sum(samples), expected_largest(samples), expected_sum(samples);
    kernels::dispatch(
        kernels::Softmax<T>{{.features = features, .samples = samples, .stride = stride},
                            x.data(),
                            expected.data(),
                            expected_largest.data(),
                            expected_sum.data()});
    kernels::SoftmaxRows<T> rows{features, samples,        stride,     x.data(),
                                 y.data(), largest.data(), sum.data(), factors.data()};
    kernels::dispatch(rows);
    CHECK(std::equal(y.begin(), y.end(), expected.begin()));
    CHECK(std::equal(largest.begin(), largest.end(), expected_largest.begin()));
    CHECK(std::equal(sum.begin(), sum.end(), expected_sum.begin()));
    rows.y = rows.factors = nullptr;
    std::fill(sum.begin(), sum.end(), T(7));
    kernels::dispatch(rows);
    CHECK(std::equal(sum.begin(), sum.end(), expected_sum.begin()));
  });
}
