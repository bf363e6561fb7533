// Any stage of samples behind one type.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/clone_ptr.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Holds any Stage of samples (not of batches), so that stages over several pipelines, and those
/// with much code, are compiled once for all of them. A virtual call for each sample number that
/// passes, and one for each batch that is read.
///
/// A copy is independent of the original; each is used by one thread.
class AnyStage {
 public:
  using item_type = Element;
  /// Above that of the stages which it may hold. A stage over AnyStage gives its samples a `pass`
  /// of their own, so that random keys stay apart where such stages are nested.
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

/// The pass of a sample that a stage over AnyStage makes of others: another one than theirs.
[[nodiscard]] constexpr std::uint64_t rekeyed(std::uint64_t pass, std::string_view stage) noexcept {
  std::uint64_t tag = 0;
  for (const char letter : stage) tag = tag << 5 ^ tag >> 59 ^ static_cast<std::uint64_t>(letter);
  return RandomKey(pass).fold_in(tag).value();
}

/// The part of that number of each sample.
void parts_numbered(ElementSpan samples, std::size_t number, ElementBatch& out);

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/any_stage.ipp"
#endif
