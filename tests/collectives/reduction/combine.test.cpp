#include "lockstep/collectives/reduction/combine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/core/half.hpp"

using namespace lockstep;

TEST_CASE_TEMPLATE("combine: element by element, for any length, also in place", T, float, double,
                   std::int64_t) {
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<T> a(count + 1, T(99)), b(count), sum(count + 1, T(99));
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<T>(i);
      b[i] = static_cast<T>(3 * i) - T(50);
    }
    detail::combine({data_type_of<T>, ReduceOp::sum}, sum.data(), a.data(), b.data(), count);
    std::vector<T> largest = a;
    detail::combine({data_type_of<T>, ReduceOp::max}, largest.data(), largest.data(), b.data(),
                    count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(sum[i] == a[i] + b[i]);
      CHECK(largest[i] == std::max(a[i], b[i]));
    }
    CHECK(sum[count] == T(99));
    CHECK(largest[count] == T(99));
  }
}

namespace {

template <class T>
T combined(ReduceOp op, T a, T b) {
  detail::combine({data_type_of<T>, op}, &a, &a, &b, 1);
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("combine: the maximum of anything and NaN is NaN, on either side", T, float,
                   double) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(std::isnan(combined(ReduceOp::max, T(1), nan)));
  CHECK(std::isnan(combined(ReduceOp::max, nan, T(1))));
  CHECK(combined(ReduceOp::max, T(-1), T(-2)) == T(-1));
}

TEST_CASE("combine: integers wrap around") {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(combined(ReduceOp::sum, largest, std::int64_t{1}) ==
        std::numeric_limits<std::int64_t>::min());
}

using namespace lockstep_test;

namespace {

template <class T>
std::vector<std::vector<T>> inputs(int ranks, std::size_t count) {
  std::vector<std::vector<T>> arrays;
  for (int rank = 0; rank < ranks; ++rank) arrays.push_back(random_numbers<T>(rank, count));
  return arrays;
}

/// Every rank's share, for all.
template <class T>
std::vector<std::vector<T>> reduced(ReduceOp op, std::vector<std::vector<T>> arrays,
                                    std::size_t begin) {
  const auto ranks = static_cast<int>(arrays.size());
  const std::size_t count = arrays[0].size() - begin;
  for (int rank = 0; rank < ranks; ++rank)
    detail::reduce_share_for_all({data_type_of<T>, op}, rank, ranks, begin, count, [&](int r) {
      return reinterpret_cast<std::byte*>(arrays[static_cast<std::size_t>(r)].data() + begin);
    });
  return arrays;
}

template <class T>
void check_sums(int ranks, std::size_t count, std::size_t begin) {
  CAPTURE(ranks);
  CAPTURE(count);
  CAPTURE(begin);
  const auto arrays = inputs<T>(ranks, count);
  const auto expected = contract_sum(arrays);
  const auto results = reduced(ReduceOp::sum, arrays, begin);
  for (std::size_t r = 0; r < arrays.size(); ++r) {
    const auto split = static_cast<std::ptrdiff_t>(begin);
    CHECK(std::vector<T>(results[r].begin(), results[r].begin() + split) ==
          std::vector<T>(arrays[r].begin(), arrays[r].begin() + split));
    CHECK(std::vector<T>(results[r].begin() + split, results[r].end()) ==
          std::vector<T>(expected.begin() + split, expected.end()));
  }
}

}  // namespace

TEST_CASE("share_of: the shares follow one another, and begin on cache lines") {
  for (const int ranks : {1, 2, 3, 8, 70})
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 1009u}) {
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Piece share = detail::share_of(DataType::float32, rank, ranks, count);
        CHECK(share.offset == next);
        CHECK((share.count == 0 || share.offset % 16 == 0));
        next += share.count;
      }
      CHECK(next == count);
    }
}

TEST_CASE(
    "reduce_share_for_all: all arrays hold the sums of the numerics contract, from any element "
    "on") {
  for (const int ranks : {2, 3, 5})
    for (const std::size_t count : {std::size_t{1}, std::size_t{1009}, 2 * block_elements + 17})
      for (const std::size_t begin : {std::size_t{0}, count / 3})
        check_sums<float>(ranks, count, begin);
  check_sums<double>(3, block_elements + 17, 21);
}

TEST_CASE("reduce_share_for_all: more ranks than have a place in one pass") {
  check_sums<float>(64, 3000, 0);
  check_sums<float>(65, 3000, 100);
}

TEST_CASE("reduce_share_for_all: maxima and whole numbers") {
  const auto results =
      reduced(ReduceOp::max, std::vector<std::vector<float>>{{1, 5, -2}, {3, 4, -1}}, 0);
  CHECK(results == std::vector<std::vector<float>>{{3, 5, -1}, {3, 5, -1}});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto sums =
      reduced(ReduceOp::sum, std::vector<std::vector<std::int64_t>>{{1, most}, {2, 1}, {3, 0}}, 0);
  CHECK(sums ==
        std::vector<std::vector<std::int64_t>>(3, {6, std::numeric_limits<std::int64_t>::min()}));
}

using namespace lockstep::detail;

namespace {

template <class Format>
void check(Wire wire) {
  for (const std::size_t count : {0u, 1u, 63u, 64u, 100u, 200u}) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i)));
    std::vector<std::uint16_t> halves(count);
    encode(wire, halves.data(), values.data(), count);
    std::vector<float> decoded(count), sums(count, 2.0f), rounded = values;
    decode(wire, decoded.data(), halves.data(), count);
    decode_add(wire, sums.data(), halves.data(), count);
    round_to_wire(wire, rounded.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK_EQ(halves[i], Format::encode(values[i]));
      CHECK_EQ(decoded[i], Format::decode(halves[i]));
      CHECK_EQ(sums[i], decoded[i] + 2.0f);
      CHECK_EQ(rounded[i], decoded[i]);
    }
  }
}

}  // namespace

TEST_CASE("halves: arrays of any length are those of their elements") {
  check<Bfloat16>(Wire::bfloat16);
  check<Float16>(Wire::float16);
}
