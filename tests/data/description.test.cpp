#include "lockstep/data/description.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/order.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Extents = std::vector<std::size_t>;

template <class D>
std::string text_of(const D& dataset) {
  ls::PipelineDescription description;
  dataset.describe(description);
  return description.text;
}

/// Says what it does.
template <class Upstream>
class Described : public ls::Transform<Upstream> {
 public:
  explicit Described(Upstream upstream) : ls::Transform<Upstream>(std::move(upstream)) {}
  void describe(ls::PipelineDescription& description) const {
    this->upstream_.describe(description);
    description.add({"described(", 7, ")"});
  }
};

/// A source of the user's own that can be read.
struct Own {
  std::int64_t samples = 40;
  float offset = 0;
  int* reads = nullptr;
  [[nodiscard]] std::int64_t size() const { return samples; }
  [[nodiscard]] std::size_t sample_size() const { return 6; }
  [[nodiscard]] std::size_t target_size() const { return 1; }
  template <class T>
  void read(std::span<const std::int64_t> indices, ls::TensorView<T> x, ls::TensorView<T> y) {
    if (reads != nullptr) *reads += static_cast<int>(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t f = 0; f < 6; ++f) x(i, f) = static_cast<T>(indices[i]) + static_cast<T>(f);
      y(i, 0) = static_cast<T>(offset);
    }
  }
};

/// Knows more of itself.
struct Told : Own {
  [[nodiscard]] Extents sample_shape() const { return {2, 3}; }
  void describe(ls::PipelineDescription& description) const { description.add({"told"}); }
  [[nodiscard]] ls::SourceFingerprint fingerprint() const {
    return {.samples = 40, .checked = 1, .checksum = 5};
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return "row " + std::to_string(i) + " of a table";
  }
};

}  // namespace

TEST_CASE("a pipeline in words: each stage with its options, and the size of a global batch") {
  CHECK(text_of(numbers(10).shuffle(10).repeat().batch(4)) ==
        "from_tensor_slices -> shuffle(10) -> repeat -> batch(4)");
  CHECK(text_of(numbers(10).shuffle(5, 3).repeat(2).batch(4, true)) ==
        "from_tensor_slices -> shuffle(5, seed 3) -> repeat(2) -> batch(4, drop_remainder)");
  CHECK(text_of(numbers(10).skip(1).take(-1).shuffle(5, {}, false).batch(4)) ==
        "from_tensor_slices -> skip(1) -> take(-1) -> shuffle(5, the same order each time) -> "
        "batch(4)");
  CHECK(text_of(numbers(10)
                    .map([](auto&) {})
                    .map([](const auto&, auto&) {}, {.sample_size = 3, .target_size = 2})) ==
        "from_tensor_slices -> map -> map(to (3), targets (2))");
  CHECK(text_of(ls::from_generator([](auto&) {}, {.size = 5, .sample_size = 1}).batch(2)) ==
        "from_generator -> map -> batch(2)");
  CHECK(text_of(ls::from_source(Own{}).apply<Described>().batch(2)) ==
        "from_source -> described(7) -> batch(2)");
  CHECK(text_of(ls::from_source(Told{})) == "told");

  ls::PipelineDescription description;
  numbers(10).batch(4).repeat().describe(description);
  CHECK(description.batch_size == 4);
}

TEST_CASE(
    "a pipeline knows that it takes another part in each pass, and that it leaves out a rest") {
  const auto of = [](const auto& dataset) {
    ls::PipelineDescription description;
    dataset.describe(description);
    return description;
  };
  const auto shuffled = numbers(10).shuffle(10);
  CHECK(of(shuffled.take(3)).is_part_of_reshuffled);
  CHECK(of(shuffled.batch(2).skip(1)).is_part_of_reshuffled);
  CHECK(of(numbers(10).shuffle(10, 7).repeat().shard(2, 1).batch(2)).is_part_of_reshuffled);
  CHECK_FALSE(of(shuffled.batch(2)).is_part_of_reshuffled);
  CHECK_FALSE(of(shuffled.take(-1).skip(0)).is_part_of_reshuffled);
  CHECK_FALSE(of(numbers(10).take(3).shuffle(10)).is_part_of_reshuffled);
  CHECK_FALSE(of(numbers(10).shuffle(10, 7, false).take(3)).is_part_of_reshuffled);
  CHECK_FALSE(of(shuffled.cache().take(3)).is_part_of_reshuffled);

  CHECK(of(numbers(10).batch(4, true)).drops_remainder);
  CHECK_FALSE(of(numbers(10).batch(4)).drops_remainder);
}

TEST_CASE("the shape of a sample stays through a pipeline, until a map changes the size") {
  const ls::Tensor<float> images(std::vector<float>(24), {2, 3, 4});
  const auto pipeline = ls::from_tensor_slices(images);
  CHECK(pipeline.sample_shape() == Extents{3, 4});
  CHECK(pipeline.map([](auto&) {}).shuffle(2).repeat().skip(1).take(1).batch(1).sample_shape() ==
        Extents{3, 4});
  CHECK(pipeline.map([](const auto&, auto&) {}, {.sample_size = 12}).sample_shape() == Extents{12});
  CHECK(ls::from_source(Own{}).sample_shape() == Extents{6});
  CHECK(ls::from_source(Told{}).batch(3).sample_shape() == Extents{2, 3});
  CHECK(ls::from_generator([](auto&) {}, {.size = 5, .sample_size = 3}).sample_shape() ==
        Extents{3});
  CHECK(ls::from_files({"a", "b"}, [&](const std::string&) { return images; }).sample_shape() ==
        Extents{3, 4});
}

TEST_CASE("samples have names") {
  CHECK(numbers(10).batch(2).sample_name(7) == "sample 7");
  CHECK(ls::from_source(Told{}).shuffle(3).sample_name(7) == "row 7 of a table");
}

TEST_CASE("a fingerprint tells the size, and other contents apart") {
  const auto fingerprint = [](const auto& pipeline) { return pipeline.fingerprint(); };
  const auto plain = fingerprint(ls::from_source(Own{}).shuffle(40).batch(4));
  CHECK(plain.samples == 40);
  CHECK(plain.checked == 16);
  CHECK(fingerprint(ls::from_source(Own{})).checksum == plain.checksum);
  CHECK(fingerprint(ls::from_source(Own{.offset = 1})).checksum != plain.checksum);
  CHECK(fingerprint(ls::from_source(Own{.samples = 39})).samples == 39);
  int reads = 0;
  CHECK(fingerprint(ls::from_source(Own{.samples = 1'000'000, .reads = &reads})).checked == 16);
  CHECK(reads == 16);
  CHECK(fingerprint(ls::from_source(Told{})).checksum == 5);
  CHECK(fingerprint(ls::from_source(Own{.samples = 0})).checked == 0);
  // The function of a generator is not called: it may have a state.
  int calls = 0;
  const auto made =
      fingerprint(ls::from_generator([&](auto&) { ++calls; }, {.size = 5, .sample_size = 3}));
  CHECK(made.samples == 5);
  CHECK(made.checked == 0);
  CHECK(calls == 0);
}

TEST_CASE(
    "fingerprint_positions: the first, the last and others between; fewer where samples are "
    "large") {
  using ls::detail::fingerprint_positions;
  CHECK(fingerprint_positions(0, 1).empty());
  CHECK(fingerprint_positions(1, 1) == Indices{0});
  CHECK(fingerprint_positions(5, 1) == range(0, 5));
  CHECK(fingerprint_positions(16, 1) == range(0, 16));
  CHECK(fingerprint_positions(1000, 1 << 30) == Indices{0, 999});
  CHECK(fingerprint_positions(31, 1 << 14) == Indices{0, 10, 20, 30});
  const Indices many = fingerprint_positions(std::numeric_limits<std::int64_t>::max(), 0);
  CHECK(many.size() == 16);
  CHECK(many.front() == 0);
  CHECK(many.back() == std::numeric_limits<std::int64_t>::max() - 1);
  CHECK(std::is_sorted(many.begin(), many.end()));
}

TEST_CASE("is_same_shape: equal extents but for those of 1, or flat") {
  const auto same = [](const Extents& a, const Extents& b) {
    CHECK(ls::detail::is_same_shape(a, b) == ls::detail::is_same_shape(b, a));
    return ls::detail::is_same_shape(a, b);
  };
  CHECK(same({28, 28}, {28, 28}));
  CHECK(same({28, 28}, {28, 28, 1}));
  CHECK(same({1, 28, 28}, {28, 28, 1}));
  CHECK(same({784}, {28, 28, 1}));
  CHECK(same({}, {1}));
  CHECK_FALSE(same({3, 32, 32}, {32, 32, 3}));
  CHECK_FALSE(same({14, 56}, {28, 28}));
  CHECK_FALSE(same({28, 27}, {28, 28}));
  CHECK_FALSE(same({783}, {28, 28}));
  CHECK_FALSE(same({}, {4}));
  CHECK(ls::detail::shape_of_size({2, 3}, 6) == Extents{2, 3});
  CHECK(ls::detail::shape_of_size({2, 3}, 7) == Extents{7});
}
