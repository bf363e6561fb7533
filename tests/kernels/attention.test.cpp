#include "lockstep/kernels/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using kernels::AttentionSize;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

namespace {

using Numbers = std::vector<double>;

/// The arrays of one attention, beside what it should compute: plain loops in double.
template <class T>
struct Problem {
  AttentionSize s;
  double rate;
  Array<T> q, k, v, o, d_output, dq, dk, dv, query_mask, key_mask, kept, work;
  bool masked;

  Problem(AttentionSize size, bool with_masks, double dropout_rate)
      : s(with_strides(size)),
        rate(dropout_rate),
        q(s.heads * s.key_size * s.query_stride),
        k(s.heads / s.group * s.key_size * s.key_stride),
        v(s.heads / s.group * s.value_size * s.key_stride),
        o(s.heads * s.value_size * s.query_stride, T(7)),
        d_output(o.size()),
        dq(q.size(), T(7)),
        dk(k.size(), T(7)),
        dv(v.size(), T(7)),
        query_mask(s.samples * s.queries),
        key_mask(s.samples * s.keys),
        kept(kernels::attention_kept(s), T(7)),
        work(kernels::attention_work(s), T(7)),
        masked(with_masks) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (const Array<T>* array : {&q, &k, &v, &d_output})
      for (T& value : *array) value = static_cast<T>(uniform(random));
    for (const Array<T>* array : {&query_mask, &key_mask})
      for (T& value : *array) value = static_cast<T>(random() % 3 > 0);
    // One sequence whose first keys are masked: with `causal`, its first queries see none.
    for (std::size_t i = 0; i < std::min<std::size_t>(s.keys, 4); ++i) key_mask[i] = T(0);
  }

  static AttentionSize with_strides(AttentionSize size) {
    size.query_stride = lockstep::padded_batch(size.samples * size.queries);
    size.key_stride = lockstep::padded_batch(size.samples * size.keys);
    return size;
  }

  static lockstep::RandomKey key(std::size_t sample) {
    return lockstep::RandomKey(5).fold_in(sample);
  }

  void run() {
    kernels::AttentionMasks<T> masks;
    if (masked) masks = {query_mask.data(), key_mask.data()};
    const auto random_key = [](std::size_t sample) { return key(sample); };
    const kernels::AttentionDropout dropout{static_cast<std::uint64_t>(std::round(rate * 0x1p32)),
                                            1 / (1 - rate), random_key};
    kernels::attention_forward<T>(s, q.data(), k.data(), v.data(), masks, dropout, o.data(),
                                  kept.data(), work.data());
    for (T& value : work) value = T(7);
    kernels::attention_backward<T>(
        s,
        {q.data(), k.data(), v.data(), o.data(), d_output.data(), dq.data(), dk.data(), dv.data()},
        masks, dropout, kept.data(), work.data());
  }

  double difference(const Array<T>& values, const Numbers& expected, std::size_t stride,
                    std::size_t positions) const {
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % stride < positions)
        worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected[i]));
      else if (&values == &o || &values == &dq || &values == &dk || &values == &dv)
        worst = std::max(worst,
                         std::abs(static_cast<double>(values[i]) - 7));  // nothing is written there
    return worst;
  }

  /// The largest difference of o, dq, dk and dv.
  double worst() const {
    Numbers eo(o.size()), eq(q.size()), ek(k.size()), ev(v.size());
    const double scale = 1 / std::sqrt(static_cast<double>(s.key_size));
    const auto at = [](const Array<T>& a, std::size_t i) { return static_cast<double>(a[i]); };
    for (std::size_t b = 0; b < s.samples; ++b)
      for (std::size_t h = 0; h < s.heads; ++h)
        for (std::size_t t = 0; t < s.queries; ++t) {
          const std::size_t query = b * s.queries + t;
          const auto qi = [&](std::size_t f) {
            return (h * s.key_size + f) * s.query_stride + query;
          };
          const auto oi = [&](std::size_t f) {
            return (h * s.value_size + f) * s.query_stride + query;
          };
          const auto ki = [&](std::size_t f, std::size_t n) {
            return (h / s.group * s.key_size + f) * s.key_stride + b * s.keys + n;
          };
          const auto vi = [&](std::size_t f, std::size_t n) {
            return (h / s.group * s.value_size + f) * s.key_stride + b * s.keys + n;
          };
          Numbers p(s.keys), factor(s.keys, 1.0), dp(s.keys);
          double sum = 0, product = 0;
          lockstep::RandomStream random(key(b).fold_in(h * s.queries + t));
          for (std::size_t n = 0; n < s.keys; ++n) {
            if (rate > 0) factor[n] = random() >= std::round(rate * 0x1p32) ? 1 / (1 - rate) : 0;
            if (s.causal && n > t) continue;
            if (s.window > 0 && n + s.window <= t) continue;
            if (masked && (key_mask[b * s.keys + n] == 0 || query_mask[query] == 0)) continue;
            double score = 0;
            for (std::size_t f = 0; f < s.key_size; ++f)
              score += at(q, qi(f)) * at(k, ki(f, n)) * scale;
            sum += p[n] = std::exp(score);
          }
          for (std::size_t n = 0; n < s.keys; ++n) {
            if (sum > 0) p[n] /= sum;
            for (std::size_t f = 0; f < s.value_size; ++f) {
              eo[oi(f)] += p[n] * factor[n] * at(v, vi(f, n));
              ev[vi(f, n)] += p[n] * factor[n] * at(d_output, oi(f));
              dp[n] += factor[n] * at(v, vi(f, n)) * at(d_output, oi(f));
            }
            product += p[n] * dp[n];
          }
          for (std::size_t n = 0; n < s.keys; ++n)
            for (std::size_t f = 0; f < s.key_size; ++f) {
              eq[qi(f)] += p[n] * (dp[n] - product) * scale * at(k, ki(f, n));
              ek[ki(f, n)] += p[n] * (dp[n] - product) * scale * at(q, qi(f));
            }
        }
    const std::size_t queries = s.samples * s.queries, keys = s.samples * s.keys;
    return std::max(
        {difference(o, eo, s.query_stride, queries), difference(dq, eq, s.query_stride, queries),
         difference(dk, ek, s.key_stride, keys), difference(dv, ev, s.key_stride, keys)});
  }
};

template <class T>
void check(const AttentionSize& size, bool masked, double rate) {
  CAPTURE(size.queries);
  CAPTURE(size.keys);
  CAPTURE(size.causal);
  CAPTURE(size.window);
  CAPTURE(masked);
  CAPTURE(rate);
  Problem<T> problem(size, masked, rate);
  problem.run();
  CHECK(problem.worst() < (std::is_same_v<T, float> ? 3e-5 : 1e-12));
}

}  // namespace

TEST_CASE_TEMPLATE("attention: against loops in double", T, float, double) {
  for_each_instruction_set([] {
    for (const std::size_t length : {1u, 5u, 16u, 17u, 48u, 70u})
      for (const bool causal : {false, true})
        for (const bool masked : {false, true})
          check<T>({.samples = 3,
                    .heads = 2,
                    .key_size = 5,
                    .value_size = 3,
                    .queries = length,
                    .keys = length,
                    .causal = causal},
                   masked, length == 17 || length == 70 ? 0.25 : 0);
  });
}

TEST_CASE_TEMPLATE("attention: windows, and heads that share keys and values", T, float, double) {
  for_each_instruction_set([] {
    for (const std::size_t length : {1u, 17u, 48u, 70u})
      for (const std::size_t window : {1u, 3u, 16u, 20u, 33u, 100u})
        for (const double rate : {0.0, 0.25})
          check<T>({.samples = 2,
                    .heads = 4,
                    .key_size = 6,
                    .value_size = 3,
                    .queries = length,
                    .keys = length,
                    .causal = true,
                    .window = window,
                    .group = window % 2 == 0 ? 2U : 4U},
                   length == 70, rate);
    for (const std::size_t window : {0u, 5u, 70u, 257u})
      check<T>({.samples = 1,
                .heads = 2,
                .key_size = 4,
                .value_size = 4,
                .queries = 300,
                .keys = 300,
                .causal = true,
                .window = window,
                .group = 2},
               window == 70, window == 5 ? 0.25 : 0);
  });
}

TEST_CASE_TEMPLATE("attention: long sequences, whose probabilities are computed again", T, float,
                   double) {
  const AttentionSize size{.samples = 2,
                           .heads = 2,
                           .key_size = 8,
                           .value_size = 16,
                           .queries = 300,
                           .keys = 300,
                           .causal = true};
  REQUIRE(!kernels::attention_keeps_probabilities(size));
  check<T>(size, false, 0);
  check<T>(size, true, 0.5);
}

TEST_CASE_TEMPLATE("attention: other keys than queries", T, float, double) {
  for_each_instruction_set([] {
    for (const bool causal : {false, true}) {
      check<T>({.samples = 2,
                .key_size = 16,
                .value_size = 17,
                .queries = 40,
                .keys = 9,
                .causal = causal},
               true, 0.5);
      check<T>({.samples = 2,
                .key_size = 16,
                .value_size = 17,
                .queries = 3,
                .keys = 33,
                .causal = causal},
               true, 0);
    }
  });
}

TEST_CASE("attention: a sequence alone has the bits that it has among others") {
  const AttentionSize three{.samples = 3,
                            .heads = 2,
                            .key_size = 8,
                            .value_size = 8,
                            .queries = 37,
                            .keys = 37,
                            .causal = true};
  AttentionSize alone = three;
  alone.samples = 1;
  Problem<float> all(three, false, 0), one(alone, false, 0);
  for (std::size_t f = 0; f < 16; ++f)
    for (std::size_t t = 0; t < 37; ++t) {
      const std::size_t to = f * one.s.query_stride + t, from = f * all.s.query_stride + 37 + t;
      one.q[to] = all.q[from];
      one.k[to] = all.k[from];
      one.v[to] = all.v[from];
      one.d_output[to] = all.d_output[from];
    }
  all.run();
  one.run();
  std::size_t wrong = 0;
  for (std::size_t f = 0; f < 16; ++f)
    for (std::size_t t = 0; t < 37; ++t) {
      const std::size_t to = f * one.s.query_stride + t, from = f * all.s.query_stride + 37 + t;
      wrong += one.o[to] != all.o[from];
      wrong += one.dq[to] != all.dq[from];
      wrong += one.dk[to] != all.dk[from];
      wrong += one.dv[to] != all.dv[from];
    }
  CHECK(wrong == 0);
}

TEST_CASE("attention: gradients may take the place of what they belong to") {
  const AttentionSize size{
      .samples = 2, .heads = 2, .key_size = 8, .value_size = 8, .queries = 40, .keys = 40};
  Problem<float> apart(size, false, 0), same(size, false, 0);
  apart.run();
  const auto random_key = [](std::size_t sample) { return lockstep::RandomKey(sample); };
  const kernels::AttentionDropout none{0, 1, random_key};
  kernels::attention_forward<float>(same.s, same.q.data(), same.k.data(), same.v.data(), {}, none,
                                    same.o.data(), same.kept.data(), same.work.data());
  kernels::attention_backward<float>(
      same.s,
      {same.q.data(), same.k.data(), same.v.data(), same.o.data(), same.d_output.data(),
       same.q.data(), same.k.data(), same.v.data()},
      {}, none, same.kept.data(), same.work.data());
  CHECK(std::equal(same.q.begin(), same.q.end(), apart.dq.begin()));
  CHECK(std::equal(same.k.begin(), same.k.end(), apart.dk.begin()));
  CHECK(std::equal(same.v.begin(), same.v.end(), apart.dv.begin()));
}

TEST_CASE("attention: sizes of blocks and of what is kept do not depend on the number of samples") {
  CHECK(kernels::attention_block(1) == 16);
  CHECK(kernels::attention_block(17) == 32);
  CHECK(kernels::attention_block(256) == 32);
  CHECK(kernels::attention_block(257) == 64);
  // Short sequences keep all probabilities, long ones two numbers for each query and head.
  kernels::AttentionSize size{.samples = 2, .heads = 3, .queries = 60, .keys = 60};
  CHECK(kernels::attention_keeps_probabilities(size));
  CHECK(kernels::attention_kept(size) == 2 * 3 * 60 * 64);
  size.queries = size.keys = 1024;
  CHECK(!kernels::attention_keeps_probabilities(size));
  CHECK(kernels::attention_kept(size) == 2 * 3 * 2 * 1024);
  const std::size_t work = kernels::attention_work(size);
  size.samples = 100;
  CHECK(kernels::attention_work(size) == work);
}
