#include "lockstep/data/tensor.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;

namespace {

template <class U>
ls::Tensor<U> random_tensor(std::size_t rows, std::size_t features) {
  ls::RandomStream random{ls::RandomKey(rows * 1000 + features)};
  std::vector<U> values(rows * features);
  for (U& value : values) value = static_cast<U>(random.below(256));
  return ls::Tensor<U>(values, {rows, features});
}

template <class U, class T>
void check_gather(std::size_t count, std::size_t features, float divisor) {
  constexpr std::size_t rows = 37;
  const ls::Tensor<U> tensor = random_tensor<U>(rows, features) / divisor;
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < count; ++i)
    indices.push_back(static_cast<std::int64_t>(i * 7 % rows));
  const lockstep_test::Tensor<T> out(count, features);
  ls::detail::gather(tensor, std::span<const std::int64_t>(indices), out.view());
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t f = 0; f < features; ++f) {
      const U stored = tensor.row(static_cast<std::size_t>(indices[i]))[f];
      // What NumPy's `images.astype(T) / divisor` gives, to the last bit.
      REQUIRE(out(i, f) == static_cast<T>(stored) / static_cast<T>(divisor));
    }
}

}  // namespace

TEST_CASE_TEMPLATE("gather converts, divides exactly and transposes", U, std::uint8_t, std::int8_t,
                   std::int16_t, int, float) {
  for (const std::size_t count : {0u, 1u, 3u, 15u, 16u, 17u, 32u, 45u, 64u})
    for (const std::size_t features : {1u, 2u, 16u, 49u})
      for (const float divisor : {1.0f, 255.0f, 3.0f}) {
        check_gather<U, float>(count, features, divisor);
        check_gather<U, double>(count, features, divisor);
      }
}

TEST_CASE("gather divides a double before it becomes a float") {
  const ls::Tensor<double> tensor = ls::Tensor<double>({1.0 + 0x1p-40, 1e300}, {2, 1}) / 3;
  const lockstep_test::Tensor<float> out(1, 1);
  const std::int64_t index = 0;
  ls::detail::gather(tensor, std::span(&index, 1), out.view());
  CHECK(out(0, 0) == static_cast<float>((1.0 + 0x1p-40) / 3.0));
}

TEST_CASE("gather stays inside a view whose stride leaves no room for a whole tile") {
  const ls::Tensor<int> tensor({1, 2, 3, 4}, {2, 2});
  std::array<float, 6> memory{};
  const std::array<std::int64_t, 2> indices{1, 0};
  ls::detail::gather(tensor, std::span<const std::int64_t>(indices),
                     ls::TensorView<float>(memory.data(), 2, 2, 3));
  CHECK(memory == std::array<float, 6>{3, 1, 0, 4, 2, 0});
}

TEST_CASE("copy_out and copy_in are inverse") {
  const auto view = lockstep_test::Tensor<float>::random(20, 5, 1, -1, 1);
  const lockstep_test::Tensor<float> back(20, 5);
  std::vector<double> samples(4 * 5);
  ls::detail::copy_out<float>(view.view(), 16, 4, samples.data());
  CHECK(samples[5 + 3] == static_cast<double>(view(17, 3)));
  ls::detail::copy_in<float>(samples.data(), back.view(), 16, 4);
  CHECK(back(19, 4) == view(19, 4));
  CHECK(back(15, 4) == lockstep_test::Tensor<float>::padding);
}
