// Stages: what a pipeline consists of, and AnyStage, any of them behind one type.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Grows when needed. Copies begin empty, so that an object that holds one is copyable and copies
/// share nothing.
class Scratch {
 public:
  Scratch() noexcept = default;
  Scratch(const Scratch&) noexcept {}
  Scratch& operator=(const Scratch&) noexcept { return *this; }

  /// `size` elements of undefined value.
  template <class T>
  T* get(std::size_t size) {
    if (buffer_.size() < size * sizeof(T)) buffer_ = Buffer(size * sizeof(T));
    return reinterpret_cast<T*>(buffer_.data());
  }

  /// A view of undefined values; empty() when there are no features.
  template <class T>
  TensorView<T> view(std::size_t samples, std::size_t features) {
    if (features == 0) return {};
    const std::size_t stride = padded_batch(samples);
    return {get<T>(stride * features), samples, features, stride};
  }

 private:
  Buffer buffer_;
};

/// Owns what is behind an Interface with a virtual destructor, or nothing. A copy has a copy of the
/// object: `Interface* clone() const` makes one with new. (Quicker to compile than
/// std::unique_ptr, which every program would instantiate.)
template <class Interface>
class ClonePtr {
 public:
  ClonePtr() noexcept = default;
  /// Takes over what new has made.
  explicit ClonePtr(Interface* made) noexcept : held_(made) {}
  ClonePtr(const ClonePtr& other)
      : held_(other.held_ != nullptr ? other.held_->clone() : nullptr) {}
  ClonePtr(ClonePtr&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  ClonePtr& operator=(ClonePtr other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~ClonePtr() { delete held_; }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  Interface* operator->() const noexcept { return held_; }

 private:
  Interface* held_ = nullptr;
};

}  // namespace detail

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

/// Holds any Stage of samples (not of batches), so that stages over several pipelines, and those
/// with much code, are compiled once for all of them. A virtual call for each sample number that
/// passes, and one for each batch that is read.
///
/// A copy is independent of the original; each is used by one thread.
class AnyStage {
 public:
  using item_type = Element;
  /// Above that of the stages which it may hold. A stage over AnyStage gives its samples a
  /// different `pass`, so that random keys stay apart where such stages are nested.
  static constexpr std::uint64_t depth = 1000;

  template <class S>
    requires(!std::same_as<S, AnyStage> && Stage<S> && std::same_as<typename S::item_type, Element>)
  explicit AnyStage(S stage) : held_(new Holder<S>(std::move(stage))) {}

  void begin(Pass pass) { held_->begin(pass); }
  bool next(Element& element) { return held_->next(element); }
  std::int64_t advance(std::int64_t n) { return held_->advance(n); }
  [[nodiscard]] std::int64_t cardinality() const { return held_->cardinality(); }
  [[nodiscard]] std::size_t sample_size() const { return held_->sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return held_->target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return held_->weight_size(); }
  [[nodiscard]] std::int64_t num_files() const { return held_->num_files(); }
  void shard_files(int num_shards, int index) { held_->shard_files(num_shards, index); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return held_->sample_shape(); }
  void describe(PipelineDescription& description) const { held_->describe(description); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return held_->fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return held_->sample_name(i); }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
    held_->read(samples, x, y);
  }
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
    held_->read(samples, x, y);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    [[nodiscard]] virtual Interface* clone() const = 0;
    virtual void begin(Pass pass) = 0;
    virtual bool next(Element& element) = 0;
    virtual std::int64_t advance(std::int64_t n) = 0;
    [[nodiscard]] virtual std::int64_t cardinality() const = 0;
    [[nodiscard]] virtual std::size_t sample_size() const = 0;
    [[nodiscard]] virtual std::size_t target_size() const = 0;
    [[nodiscard]] virtual std::size_t weight_size() const = 0;
    [[nodiscard]] virtual std::int64_t num_files() const = 0;
    virtual void shard_files(int num_shards, int index) = 0;
    [[nodiscard]] virtual std::vector<std::size_t> sample_shape() const = 0;
    virtual void describe(PipelineDescription& description) const = 0;
    [[nodiscard]] virtual SourceFingerprint fingerprint() const = 0;
    [[nodiscard]] virtual std::string sample_name(std::int64_t i) const = 0;
    virtual void read(ElementSpan samples, TensorView<float> x, TensorView<float> y) = 0;
    virtual void read(ElementSpan samples, TensorView<double> x, TensorView<double> y) = 0;
  };

  template <class S>
  struct Holder final : Interface {
    explicit Holder(S held) : stage(std::move(held)) {}
    [[nodiscard]] Interface* clone() const override { return new Holder(stage); }
    void begin(Pass pass) override { stage.begin(pass); }
    bool next(Element& element) override { return stage.next(element); }
    std::int64_t advance(std::int64_t n) override { return stage.advance(n); }
    [[nodiscard]] std::int64_t cardinality() const override { return stage.cardinality(); }
    [[nodiscard]] std::size_t sample_size() const override { return stage.sample_size(); }
    [[nodiscard]] std::size_t target_size() const override { return stage.target_size(); }
    [[nodiscard]] std::size_t weight_size() const override { return detail::weight_size_of(stage); }
    [[nodiscard]] std::int64_t num_files() const override { return stage.num_files(); }
    void shard_files(int num_shards, int index) override { stage.shard_files(num_shards, index); }
    [[nodiscard]] std::vector<std::size_t> sample_shape() const override {
      return stage.sample_shape();
    }
    void describe(PipelineDescription& description) const override { stage.describe(description); }
    [[nodiscard]] SourceFingerprint fingerprint() const override { return stage.fingerprint(); }
    [[nodiscard]] std::string sample_name(std::int64_t i) const override {
      return stage.sample_name(i);
    }
    void read(ElementSpan samples, TensorView<float> x, TensorView<float> y) override {
      stage.read(samples, x, y);
    }
    void read(ElementSpan samples, TensorView<double> x, TensorView<double> y) override {
      stage.read(samples, x, y);
    }
    S stage;
  };

  detail::ClonePtr<Interface> held_;
};

namespace detail {

/// The features [begin, begin + count) of a view; empty() when the view is, or when there are none.
template <class T>
[[nodiscard]] TensorView<T> features_of(TensorView<T> view, std::size_t begin,
                                        std::size_t count) noexcept {
  if (view.empty() || count == 0) return {};
  return {view.feature(begin), view.samples(), count, view.stride()};
}

/// Puts features into the places of a view that begin at `begin`.
template <class T>
void copy_features(TensorView<T> from, TensorView<T> to, std::size_t begin) noexcept {
  for (std::size_t f = 0; f < from.features(); ++f)
    std::copy_n(from.feature(f), from.samples(), to.feature(begin + f));
}

/// The pass of a sample that a stage over AnyStage makes of others: not theirs.
[[nodiscard]] constexpr std::uint64_t rekeyed(std::uint64_t pass, std::string_view stage) noexcept {
  std::uint64_t tag = 0;
  for (const char letter : stage) tag = tag << 5 ^ tag >> 59 ^ static_cast<std::uint64_t>(letter);
  return RandomKey(pass).fold_in(tag).value();
}

/// The part of that number of each sample.
void parts_numbered(ElementSpan samples, std::size_t number, ElementBatch& out);

}  // namespace detail
}}  // namespace lockstep

LOCKSTEP_EXTERN(class std::vector<lockstep::Element>);

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/stage.ipp"
#endif
