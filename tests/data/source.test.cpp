#include "lockstep/data/source.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

// The minimal model of the documentation.
struct Squares {
  std::int64_t size() const { return 1000; }
  std::size_t sample_size() const { return 1; }
  std::size_t target_size() const { return 1; }
  template <class T>
  void read(std::span<const std::int64_t> indices, ls::TensorView<T> x, ls::TensorView<T> y) const {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      x(i, 0) = static_cast<T>(indices[i]);
      if (!y.empty()) y(i, 0) = x(i, 0) * x(i, 0);
    }
  }
};
static_assert(ls::Source<Squares>);

struct Numbered : Squares {
  std::int64_t index(std::int64_t i) const { return 5000 + i; }
};
static_assert(ls::Source<Numbered>);

// Near misses.
struct NoTargetSize {
  std::int64_t size() const { return 1; }
  std::size_t sample_size() const { return 1; }
  template <class T>
  void read(std::span<const std::int64_t>, ls::TensorView<T>, ls::TensorView<T>) const {}
};
static_assert(!ls::Source<NoTargetSize>);

struct SizeIsText : Squares {
  const char* size() const { return "1000"; }
};
static_assert(!ls::Source<SizeIsText>);

struct FloatOnly {
  std::int64_t size() const { return 1; }
  std::size_t sample_size() const { return 1; }
  std::size_t target_size() const { return 1; }
  void read(std::span<const std::int64_t>, ls::TensorView<float>, ls::TensorView<float>) const {}
};
static_assert(ls::ReadableSource<FloatOnly, float>);
static_assert(!ls::Source<FloatOnly>);

struct ReadsOneSample : Squares {
  template <class T>
  void read(std::int64_t, ls::TensorView<T>, ls::TensorView<T>) const {}
};
static_assert(!ls::Source<ReadsOneSample>);

struct MoveOnly : Squares {
  MoveOnly() = default;
  MoveOnly(MoveOnly&&) = default;
  MoveOnly& operator=(MoveOnly&&) = default;
};
static_assert(!ls::Source<MoveOnly>);

}  // namespace

TEST_CASE("a user's own source makes a dataset") {
  auto dataset = ls::from_source(Squares{}).skip(3).take(5).batch(4);
  static_assert(ls::Dataset<decltype(dataset)>);
  CHECK(dataset.cardinality() == 2);
  dataset.begin({});
  CHECK(dataset.next() == 4);
  const Read<double> first(dataset);
  CHECK(first.y(3, 0) == 36.0);
  CHECK(first.x.padding_is(0.0));
  CHECK(first.y.padding_is(0.0));
  CHECK(dataset.next() == 1);
  CHECK(Read<float>(dataset).y(0, 0) == 49.0f);
  CHECK(dataset.next() == 0);
}

TEST_CASE("a source that numbers its samples is read by these numbers") {
  auto dataset = ls::from_source(Numbered{}).take(2).batch(2);
  dataset.begin({});
  CHECK(dataset.next() == 2);
  CHECK(to_indices(dataset.sample_indices()) == Indices{5000, 5001});
  CHECK(Read<float>(dataset).x(1, 0) == 5001.0f);
}
