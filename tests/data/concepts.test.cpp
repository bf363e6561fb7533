#include "lockstep/data/concepts.hpp"
#include "lockstep/data/distributed_dataset.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

// A user's own dataset, without source or pipeline: batches of 1, 2, 3, ... samples, of a length
// that it does not tell.
class Growing {
 public:
  explicit Growing(std::int64_t batches) : batches_(batches) {}
  std::size_t sample_size() const { return 2; }
  std::size_t target_size() const { return 0; }
  std::int64_t cardinality() const { return ls::unknown_cardinality; }
  void begin(ls::Iteration iteration) {
    start_ = 100 * iteration.number;
    seek(0);
  }
  std::size_t next() {
    indices_.clear();
    if (position_ == batches_) return 0;
    const std::int64_t first = position_ * (position_ + 1) / 2;
    ++position_;
    for (std::int64_t i = 0; i < position_; ++i) indices_.push_back(start_ + first + i);
    return indices_.size();
  }
  std::span<const std::int64_t> sample_indices() const { return indices_; }
  template <class T>
  void read(std::span<const std::size_t> positions, ls::TensorView<T> x, ls::TensorView<T>) {
    for (std::size_t i = 0; i < positions.size(); ++i)
      for (std::size_t f = 0; f < 2; ++f) x(i, f) = static_cast<T>(indices_[positions[i]]);
  }
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position) {
    position_ = position;
    indices_.clear();
  }

 private:
  std::int64_t batches_;
  std::int64_t position_ = 0;
  std::int64_t start_ = 0;
  std::vector<std::int64_t> indices_;
};
static_assert(ls::Dataset<Growing>);
static_assert(ls::is_batched<Growing>);

// Near misses.
class NoSeek : Growing {
 public:
  using Growing::begin, Growing::cardinality, Growing::Growing, Growing::next, Growing::position,
      Growing::read, Growing::sample_indices, Growing::sample_size, Growing::target_size;
};
static_assert(!ls::Dataset<NoSeek>);
static_assert(ls::SizedDataset<NoSeek>);
static_assert(!ls::SeekableDataset<NoSeek>);

class NextTellsNothing : public Growing {
 public:
  void next() {}
};
static_assert(!ls::Dataset<NextTellsNothing>);

class ReadsFloatOnly : public Growing {
 public:
  void read(std::span<const std::size_t>, ls::TensorView<float>, ls::TensorView<float>) {}
};
static_assert(ls::ReadableDataset<ReadsFloatOnly, float>);
static_assert(!ls::Dataset<ReadsFloatOnly>);

class NoCopy : public Growing {
 public:
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;
};
static_assert(!ls::Dataset<NoCopy>);

// A pipeline is a dataset once it is batched, and not before.
using Samples = decltype(numbers(1));
using Batched = decltype(numbers(1).batch(1));
static_assert(!ls::Dataset<Samples>);
static_assert(!ls::is_batched<Samples>);
static_assert(ls::Dataset<Batched>);
static_assert(ls::is_batched<Batched>);
static_assert(
    ls::Dataset<
        decltype(numbers(1).shuffle(1).repeat().batch(1).shuffle(1).repeat().take(1).skip(1))>);

}  // namespace

TEST_CASE("a user's own dataset is distributed, though it does not know its length") {
  ls::DistributedDataset<Growing> even(Growing(4), {.num_workers = 2, .worker = 0});
  ls::DistributedDataset<Growing> odd(Growing(4), {.num_workers = 2, .worker = 1});
  CHECK(even.cardinality() == ls::unknown_cardinality);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    even.begin({0, epoch});
    odd.begin({0, epoch});
    Indices seen;
    std::size_t batch = 0;
    while (even.has_next()) {
      CHECK(even.position() == static_cast<std::int64_t>(batch));  // looking ahead is not counted
      CHECK(even.has_next());
      CHECK(odd.next());
      const bool looked_from_the_other_side = batch < 3;
      CHECK(odd.has_next() == looked_from_the_other_side);
      CHECK(even.next());
      ++batch;
      CHECK(even.samples() == (batch + 1) / 2);
      CHECK(odd.samples() == batch / 2);
      for (auto* rank : {&even, &odd}) {
        const Tensor<float> x(rank->samples(), 2);
        rank->read(x.view(), ls::TensorView<float>{});
        for (std::size_t i = 0; i < rank->samples(); ++i) {
          CHECK(x(i, 1) == static_cast<float>(rank->sample_indices()[i]));
          seen.push_back(rank->sample_indices()[i]);
        }
      }
    }
    CHECK(batch == 4);
    CHECK_FALSE(even.next());
    CHECK_FALSE(odd.next());
    CHECK(sorted(seen) == range(100 * epoch, 100 * epoch + 10));
  }
}

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
