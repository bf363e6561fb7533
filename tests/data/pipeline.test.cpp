#include "lockstep/data/pipeline.hpp"

#include <doctest/doctest.h>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

// A user's own transform: every second sample.
template <class Upstream>
class EverySecond : public ls::Transform<Upstream> {
 public:
  using item_type = typename Upstream::item_type;
  explicit EverySecond(Upstream upstream, bool odd)
      : ls::Transform<Upstream>(std::move(upstream)), odd_(odd) {}
  void begin(ls::Pass pass) {
    this->upstream_.begin(pass);
    if (odd_) this->upstream_.advance(1);
  }
  bool next(item_type& item) {
    if (!this->upstream_.next(item)) return false;
    this->upstream_.advance(1);
    return true;
  }
  std::int64_t advance(std::int64_t n) { return (this->upstream_.advance(2 * n) + 1) / 2; }
  std::int64_t cardinality() const { return (this->upstream_.cardinality() + (odd_ ? 0 : 1)) / 2; }

 private:
  bool odd_;
};

/// At every position, seeking there gives what running there gives: from the beginning, from behind
/// and from before.
template <class D>
void check_seek(const D& dataset, std::size_t most = 40) {
  const ls::Iteration iteration{5, 2};
  const Batches all = batches_of(dataset, iteration, most);
  if (dataset.cardinality() >= 0 && all.size() < most)
    CHECK(dataset.cardinality() == static_cast<std::int64_t>(all.size()));
  for (std::size_t from = 0; from <= all.size(); from += 3)
    for (std::size_t to = 0; to <= all.size(); ++to) {
      D copy = dataset;
      copy.begin(iteration);
      for (std::size_t i = 0; i < from; ++i) copy.next();
      copy.seek(static_cast<std::int64_t>(to));
      REQUIRE(copy.position() == static_cast<std::int64_t>(to));
      CHECK(copy.sample_indices().empty());
      const Batches left = rest(copy, most - to);
      REQUIRE(left == Batches(all.begin() + static_cast<std::ptrdiff_t>(to), all.end()));
    }
}

}  // namespace

TEST_SUITE("pipeline") {
  TEST_CASE("each transform leaves the pipeline before it as it was") {
    const auto source = numbers(4);
    const auto shuffled = source.shuffle(4, 1);
    CHECK(samples_of(source) == range(0, 4));
    CHECK(samples_of(shuffled.take(2)).size() == 2);
    CHECK(samples_of(shuffled).size() == 4);
  }

  TEST_CASE("copies are independent") {
    auto a = numbers(10).shuffle(5).batch(2);
    a.begin({1, 0});
    a.next();
    auto b = a;
    const Batches rest_a = rest(a);
    CHECK(rest_a.size() == 4);
    CHECK(b.position() == 1);
    CHECK(rest(b) == rest_a);
    b = numbers(10).shuffle(5).batch(2);
    b.begin({1, 0});
    b.next();
    CHECK(rest(b) == rest_a);
  }

  TEST_CASE("begin starts again, whatever was consumed") {
    auto dataset = numbers(10).shuffle(4).repeat(2).batch(3);
    const Batches all = batches_of(dataset, {1, 0});
    dataset.begin({1, 0});
    dataset.next();
    dataset.next();
    dataset.begin({1, 0});
    CHECK(dataset.position() == 0);
    CHECK(rest(dataset) == all);
  }

  TEST_CASE("seeking anywhere equals running there") {
    check_seek(numbers(10).batch(3));
    check_seek(numbers(10).batch(3, true));
    check_seek(numbers(0).batch(3));
    check_seek(numbers(10).shuffle(4).batch(3));
    check_seek(numbers(10).shuffle(100).batch(3));
    check_seek(numbers(10).repeat(4).batch(3));
    check_seek(numbers(10).repeat().batch(3));
    check_seek(numbers(10).shuffle(4).repeat().batch(3));
    check_seek(numbers(10).shuffle(4).repeat(5).batch(4, true));
    check_seek(numbers(10).repeat().shuffle(7).batch(4));
    check_seek(numbers(10).repeat(3).shuffle(7).batch(4));
    check_seek(numbers(10).shuffle(10, 1, false).repeat().batch(4));
    check_seek(numbers(10).take(7).shuffle(3).skip(2).repeat(3).take(12).batch(2));
    check_seek(numbers(3).repeat(2).repeat(3).batch(2));
    check_seek(numbers(10).skip(8).repeat().batch(3));
    check_seek(numbers(10).skip(10).repeat().batch(3));
    check_seek(numbers(10).batch(3).repeat(3));
    check_seek(numbers(10).batch(3).repeat());
    check_seek(numbers(10).batch(3).shuffle(2).repeat(3));
    check_seek(numbers(10).batch(3).repeat(3).shuffle(5).take(9).skip(2));
    check_seek(numbers(10).shuffle(5).batch(3, true).repeat(3).skip(1));
    check_seek(numbers(11).apply<EverySecond>(true).repeat(3).batch(2));
  }

  TEST_CASE("seeking over many repetitions is arithmetic") {
    auto dataset = numbers(10).shuffle(10).repeat().batch(5);
    dataset.begin({});
    dataset.seek(std::int64_t{1} << 50);
    CHECK(dataset.next() == 5);
    CHECK(dataset.position() == (std::int64_t{1} << 50) + 1);
  }

  TEST_CASE("seeking beyond the end is the end") {
    auto dataset = numbers(10).batch(3);
    dataset.begin({});
    dataset.seek(100);
    CHECK(dataset.position() == 4);
    CHECK(dataset.next() == 0);
    dataset.seek(std::numeric_limits<std::int64_t>::max());
    CHECK(dataset.next() == 0);
    dataset.seek(3);
    CHECK(dataset.next() == 1);
  }

  TEST_CASE("misuse at run time") {
    auto dataset = numbers(4).batch(2);
    CHECK(contains(message_of<ls::Error>([&] { dataset.next(); }), "begin"));
    CHECK_THROWS_AS(dataset.seek(1), ls::Error);
    dataset.begin({});
    CHECK_THROWS_AS(dataset.seek(-1), ls::Error);
    dataset.next();
    const Tensor<float> x(1, 1);
    const Tensor<float> wide(1, 3);
    const std::size_t outside = 2;
    const std::size_t inside = 0;
    const auto read = [&](std::size_t position, const Tensor<float>& view) {
      return message_of<ls::DataError>(
          [&] { dataset.read(std::span(&position, 1), view.view(), x.view()); });
    };
    CHECK(read(inside, x) == "NO EXCEPTION");
    CHECK(contains(read(outside, x), "position 2"));
    CHECK(contains(read(inside, wide), "1 x 3"));
    CHECK_THROWS_AS(dataset.read(std::span(&inside, 1), x.view(), wide.view()), ls::DataError);
  }

  TEST_CASE("reading a part of a batch writes zeros to the padding") {
    auto dataset = numbers(40).batch(20);
    dataset.begin({});
    dataset.next();
    dataset.next();
    const std::vector<std::size_t> positions{1, 3, 19};
    const Tensor<float> x(3, 1);
    const Tensor<float> y(3, 1);
    dataset.read(std::span<const std::size_t>(positions), x.view(), y.view());
    CHECK(x(0, 0) == 21.0f);
    CHECK(x(2, 0) == 39.0f);
    CHECK(y(1, 0) == 230.0f);
    CHECK(x.padding_is(0.0f));
    CHECK(y.padding_is(0.0f));
    const Tensor<float> nothing(0, 1);
    CHECK_NOTHROW(
        dataset.read(std::span<const std::size_t>(), nothing.view(), ls::TensorView<float>{}));
  }

  TEST_CASE("options stay with what comes after") {
    const auto dataset =
        numbers(4).with_options({.auto_shard_policy = ls::AutoShardPolicy::off}).repeat().batch(2);
    CHECK(dataset.auto_shard_policy() == ls::AutoShardPolicy::off);
    CHECK(numbers(4).batch(2).auto_shard_policy() == ls::AutoShardPolicy::automatic);
    CHECK(dataset.with_options({}).auto_shard_policy() == ls::AutoShardPolicy::automatic);
  }

  TEST_CASE("a user's own transform") {
    CHECK(samples_of(numbers(5).apply<EverySecond>(false)) == Indices{0, 2, 4});
    CHECK(samples_of(numbers(5).apply<EverySecond>(true).repeat(2)) == Indices{1, 3, 1, 3});
    CHECK(batches_of(numbers(5).batch(1).apply<EverySecond>(true)) == Batches{{1}, {3}});
  }
}
