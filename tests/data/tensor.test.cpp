#include "lockstep/data/tensor.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>

#include "data/support.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;

namespace {
std::vector<std::size_t> shape(std::initializer_list<std::size_t> extents) { return extents; }
}  // namespace

TEST_SUITE("tensor") {
  TEST_CASE("from values and a shape") {
    const ls::Tensor<float> t({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2});
    CHECK(t.rows() == 2);
    CHECK(t.sample_size() == 6);
    CHECK(t.sample_shape() == shape({3, 2}));
    CHECK(t.shape() == shape({2, 3, 2}));
    CHECK(t.row(1)[0] == 6.0f);
    CHECK(t.values().size() == 12);
  }

  TEST_CASE("a shape that does not fit names both sizes") {
    const std::string message = message_of<ls::DataError>([] {
      ls::Tensor<int>({1, 2, 3, 4, 5}, {2, 3});
    });
    CHECK(contains(message, "(2, 3)"));
    CHECK(contains(message, "needs 6"));
    CHECK(contains(message, "got 5"));
    CHECK_THROWS_AS(ls::Tensor<int>({1}, {}), ls::DataError);
    const std::size_t huge = std::size_t{1} << 40;
    CHECK_THROWS_AS(ls::Tensor<int>({1}, {huge, huge}), ls::DataError);
    CHECK_NOTHROW(ls::Tensor<int>({}, {0, huge, huge}));
  }

  TEST_CASE("a vector is one number a row") {
    const ls::Tensor t(std::vector<std::int64_t>{3, 1, 2});
    static_assert(std::is_same_v<decltype(t), const ls::Tensor<std::int64_t>>);
    CHECK(t.rows() == 3);
    CHECK(t.sample_size() == 1);
    CHECK(t.sample_shape().empty());
  }

  TEST_CASE("Eigen matrices and arrays in any storage order") {
    Eigen::MatrixXd columns(2, 3);
    columns << 1, 2, 3, 4, 5, 6;
    const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows =
        columns.cast<float>();
    const ls::Tensor a(columns);
    const ls::Tensor b(rows);
    const ls::Tensor c(rows.array() * 2.0f);
    static_assert(std::is_same_v<decltype(a), const ls::Tensor<double>>);
    static_assert(std::is_same_v<decltype(c), const ls::Tensor<float>>);
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(a.values()[i] == static_cast<double>(i + 1));
      CHECK(b.values()[i] == static_cast<float>(i + 1));
      CHECK(c.values()[i] == static_cast<float>(2 * (i + 1)));
    }
    CHECK(a.shape() == shape({2, 3}));

    const ls::Tensor product(columns.transpose() * columns);
    CHECK(product.shape() == shape({3, 3}));
    CHECK(product.values()[0] == 17.0);
  }

  TEST_CASE("Eigen vectors are labels") {
    const Eigen::VectorXi column = Eigen::VectorXi::LinSpaced(4, 0, 3);
    const Eigen::RowVectorXi row = column.transpose();
    CHECK(ls::Tensor(column).shape() == shape({4}));
    CHECK(ls::Tensor(row).shape() == shape({4}));
  }

  TEST_CASE("copies and slices share the elements") {
    const ls::Tensor<std::uint8_t> t({0, 1, 2, 3, 4, 5}, {3, 2});
    const ls::Tensor<std::uint8_t> copy = t;
    CHECK(copy.values().data() == t.values().data());
    ls::Tensor<std::uint8_t> part;
    {
      const ls::Tensor<std::uint8_t> whole({0, 1, 2, 3, 4, 5}, {3, 2});
      part = whole.slice(1, 3);
      CHECK(part.values().data() == whole.values().data() + 2);
    }
    CHECK(part.rows() == 2);
    CHECK(part.row(0)[0] == 2);  // outlives the whole
    CHECK(part.row(1)[1] == 5);
    CHECK(part.slice(1, 2).row(0)[0] == 4);
    CHECK(part.slice(2, 2).rows() == 0);
    CHECK(contains(message_of<ls::DataError>([&] { (void)part.slice(1, 3); }), "[1, 3)"));
    CHECK_THROWS_AS((void)part.slice(2, 1), ls::DataError);
  }

  TEST_CASE("division keeps the stored type") {
    const ls::Tensor<std::uint8_t> t({0, 255}, {2, 1});
    const auto scaled = t / 255.0f;
    static_assert(std::is_same_v<decltype(scaled), const ls::Tensor<std::uint8_t>>);
    CHECK(scaled.values().data() == t.values().data());
    CHECK(scaled.divisor() == 255.0);
    CHECK(t.divisor() == 1.0);
    CHECK((scaled / 2).divisor() == 510.0);
    CHECK(scaled.slice(0, 1).divisor() == 255.0);
    CHECK_THROWS_AS((void)(t / 0), ls::DataError);
  }

  TEST_CASE("channels last: (channels, height, width) becomes (height, width, channels)") {
    const auto images =
        ls::Tensor<int>({0,   1,   2,   3,   4,   5,   10,  11,  12,  13,  14,  15,  //
                         100, 101, 102, 103, 104, 105, 110, 111, 112, 113, 114, 115},
                        {2, 2, 2, 3}) /
        255.0f;
    const auto turned = images.channels_last();
    CHECK(turned.shape() == std::vector<std::size_t>{2, 2, 3, 2});
    const std::vector<int> expected{100, 110, 101, 111, 102, 112, 103, 113, 104, 114, 105, 115};
    CHECK(std::equal(expected.begin(), expected.end(), turned.row(1).begin(), turned.row(1).end()));
    CHECK(turned.divisor() == 255.0);
    CHECK(contains(message_of<ls::DataError>([] {
                     (void)ls::Tensor<int>({1, 2}, {1, 2}).channels_last();
                   }),
                   "channels_last() is for samples of (channels, height, width), these are (2)"));
  }

  TEST_CASE("no rows") {
    const ls::Tensor<float> none;
    CHECK(none.rows() == 0);
    CHECK(none.values().empty());
    CHECK(ls::Tensor<float>({}, {0, 28, 28}).sample_size() == 784);
  }
}

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
