// What a data pipeline is composed of.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

// A pipeline moves numbers of samples and no data: a source's stage counts 0, 1, 2, ..., and
// shuffle, repeat, take and skip rearrange the numbers. Data are touched once, when the samples of
// a batch are read. That makes seeking cheap, and every rank can run the whole pipeline.

/// One sample on its way through a pipeline.
struct Element {
  std::int64_t index = 0;  ///< its number in the source
  std::uint64_t pass =
      0;  ///< the key of the pass that it belongs to: the run's seed, iteration and repetition
  std::vector<Element> parts =
      {};  ///< for a sample made of others (zip, window, ...): the elements upstream
};

/// The samples that are to be read.
struct ElementSpan {
  std::span<const std::int64_t> indices;
  std::span<const std::uint64_t> passes;
  std::span<const std::vector<Element>> parts =
      {};  ///< one for each sample, or empty when none has parts

  /// The parts of sample i.
  [[nodiscard]] std::span<const Element> parts_of(std::size_t i) const noexcept;
  /// Sample i by itself.
  [[nodiscard]] Element element(std::size_t i) const;
};

/// Samples that were batched.
class ElementBatch {
 public:
  std::vector<std::int64_t> indices;
  std::vector<std::uint64_t> passes;
  std::vector<std::vector<Element>> parts;  ///< as in ElementSpan

  // Compiled once: every pipeline has some of them.
  ElementBatch();
  ElementBatch(const ElementBatch& other);
  ElementBatch(ElementBatch&& other) noexcept;
  ElementBatch& operator=(const ElementBatch& other);
  ElementBatch& operator=(ElementBatch&& other) noexcept;
  ~ElementBatch();

  [[nodiscard]] std::size_t size() const noexcept { return indices.size(); }
  [[nodiscard]] operator ElementSpan() const noexcept;
  void clear() noexcept;
  void push_back(std::int64_t index, std::uint64_t pass, std::span<const Element> made_of = {});
  void push_back(const Element& element);
};

/// One pass over a stage: an iteration of the dataset, or one of its repetitions.
struct Pass {
  std::uint64_t seed = 0;  ///< the run's
  RandomKey path{};        ///< of iteration and repetitions, without the seed

  [[nodiscard]] Pass repetition(std::int64_t number) const noexcept {
    return {seed, path.fold_in(static_cast<std::uint64_t>(number))};
  }
  [[nodiscard]] static Pass of(Iteration iteration) noexcept {
    return Pass{iteration.seed, RandomKey(0)}.repetition(iteration.number);
  }
};

/// A part of a pipeline: a source, or a transform of what comes from the stage before it
/// (upstream).
///
/// For a stage S:
///  1. S is copyable; copies are independent and may be used in different threads.
///  2. `S::item_type` is Element, or ElementBatch after batch.
///  3. `S::depth`: number of stages upstream, for random keys.
///  4. `begin(pass)` starts a pass. The same pass gives the same items.
///  5. `next(item)` writes the next item; false at the end, again and again.
///  6. `advance(n)` does what n calls of next do, and returns how many of them would have given an
///     item.
///  7. `cardinality()`: items in one pass, or infinite_cardinality, or unknown_cardinality.
///  8. `sample_size()`, `target_size()`, `num_files()`, `shard_files(num_shards, index)`: as for a
///     source.
///  9. `read(samples, x, y)` for T = float and double: as for a source.
/// 10. `sample_shape()`, `describe(description)`, `fingerprint()`, `sample_name(i)`: as for a
///     source. The fingerprint is the source's.
/// 11. Optional `weight_size()`: as for a source.
///
/// A transform derives from Transform<Upstream>, which forwards all of these, and replaces some. A
/// stage that changes the samples should describe itself, so that a difference between the workers'
/// options is found: upstream_.describe(description), and then description.add({"every(", n, ")"}).
template <class S>
concept Stage = std::copyable<S> &&
                requires(S& stage, const S& same, Pass pass, typename S::item_type& item,
                         std::int64_t n, ElementSpan samples, TensorView<float> floats,
                         TensorView<double> doubles, int shards, PipelineDescription& description) {
                  { S::depth } -> std::convertible_to<std::uint64_t>;
                  stage.begin(pass);
                  { stage.next(item) } -> std::same_as<bool>;
                  { stage.advance(n) } -> std::same_as<std::int64_t>;
                  { same.cardinality() } -> std::same_as<std::int64_t>;
                  { same.sample_size() } -> std::same_as<std::size_t>;
                  { same.target_size() } -> std::same_as<std::size_t>;
                  { same.num_files() } -> std::same_as<std::int64_t>;
                  stage.shard_files(shards, shards);
                  { same.sample_shape() } -> std::convertible_to<std::vector<std::size_t>>;
                  same.describe(description);
                  { same.fingerprint() } -> std::same_as<SourceFingerprint>;
                  { same.sample_name(n) } -> std::convertible_to<std::string>;
                  stage.read(samples, floats, floats);
                  stage.read(samples, doubles, doubles);
                };

/// Forwards everything upstream. The base of transforms.
template <class Upstream>
class Transform {
 public:
  using item_type = typename Upstream::item_type;
  static constexpr std::uint64_t depth = Upstream::depth + 1;

  explicit Transform(Upstream upstream) : upstream_(std::move(upstream)) {}

  void begin(Pass pass) { upstream_.begin(pass); }
  bool next(item_type& item) { return upstream_.next(item); }
  std::int64_t advance(std::int64_t n) { return upstream_.advance(n); }
  [[nodiscard]] std::int64_t cardinality() const { return upstream_.cardinality(); }
  [[nodiscard]] std::size_t sample_size() const { return upstream_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return upstream_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return detail::weight_size_of(upstream_); }
  [[nodiscard]] std::int64_t num_files() const { return upstream_.num_files(); }
  void shard_files(int num_shards, int index) { upstream_.shard_files(num_shards, index); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return upstream_.sample_shape(); }
  void describe(PipelineDescription& description) const { upstream_.describe(description); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return upstream_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return upstream_.sample_name(i); }
  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    upstream_.read(samples, x, y);
  }

 protected:
  Upstream upstream_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

LOCKSTEP_INSTANCE(class std::vector<lockstep::Element>);

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/stage.ipp"
#endif
