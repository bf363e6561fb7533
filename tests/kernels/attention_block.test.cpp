#include "lockstep/kernels/attention_block.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

// (attention.test.cpp compares all of them together with loops in double.)

TEST_CASE_TEMPLATE("attention's softmax: who sees whom, and the same bits once more", T, float,
                   double) {
  for_each_instruction_set([] {
    std::mt19937 random(1);
    constexpr std::size_t keys = 21, columns = 16, valid = 13, first = 7;
    const Array<T> scores = random_array<T>(keys * columns, random), again(scores.size());
    std::copy(scores.begin(), scores.end(), again.begin());
    Array<T> query_mask(valid, T(1)), key_mask(keys, T(1)), largest(columns), factor(columns);
    query_mask[3] = key_mask[2] = T(0);
    kernels::AttentionSoftmax<T> softmax{.scores = scores.data(),
                                         .keys = keys,
                                         .columns = columns,
                                         .valid = valid,
                                         .first_query = first,
                                         .causal = true,
                                         .query_mask = query_mask.data(),
                                         .key_mask = key_mask.data(),
                                         .largest = largest.data(),
                                         .factor = factor.data()};
    kernels::dispatch(softmax);
    for (std::size_t t = 0; t < valid; ++t) {
      double sum = 0;
      for (std::size_t key = 0; key < keys; ++key) {
        const bool seen = key <= first + t && key != 2 && t != 3;
        CHECK((scores[key * columns + t] > T(0)) == seen);
        sum += static_cast<double>(scores[key * columns + t]);
      }
      CHECK(sum == doctest::Approx(t == 3 ? 0 : 1).epsilon(1e-6));
    }
    softmax.scores = again.data();
    softmax.known = true;
    kernels::dispatch(softmax);
    CHECK(std::equal(scores.begin(), scores.end(), again.begin()));
  });
}

TEST_CASE("attention's softmax: large scores, and a NaN that is not hidden") {
  for_each_instruction_set([] {
    const Array<float> scores(2 * 16, 1e30F), largest(16), factor(16);
    scores[16] = NAN;
    kernels::dispatch(kernels::AttentionSoftmax<float>{.scores = scores.data(),
                                                       .keys = 2,
                                                       .columns = 16,
                                                       .valid = 16,
                                                       .largest = largest.data(),
                                                       .factor = factor.data()});
    CHECK(std::isnan(scores[16]));
    CHECK(scores[1] == 0.5F);
    CHECK(scores[17] == 0.5F);
  });
}
