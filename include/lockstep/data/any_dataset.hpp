// AnyDataset: a dataset of any type behind one type.
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
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// D is a pipeline that lacks its .batch(n).
template <class D>
concept UnbatchedPipeline = !Dataset<D> && requires(const D& pipeline) {
  pipeline.cardinality();
  pipeline.batch(1);
};

}  // namespace detail

/// Holds any Dataset, so that options can hold one and the training loop is compiled once for all
/// of them. A few virtual calls a batch, none a sample. A default-constructed AnyDataset is empty
/// and converts to false.
///
/// Used by one thread; copies are independent.
class AnyDataset {
 public:
  AnyDataset() noexcept = default;

  template <class D>
    requires(!std::same_as<std::remove_cvref_t<D>, AnyDataset> && Dataset<std::remove_cvref_t<D>>)
  AnyDataset(D&& dataset) : held_(new Holder<std::remove_cvref_t<D>>(std::forward<D>(dataset))) {}

  /// Refuses a pipeline without batches, with a sentence.
  template <class D>
    requires(!std::same_as<D, AnyDataset> && detail::UnbatchedPipeline<D>)
  AnyDataset(const D&) {
    static_assert(
        Dataset<D>,
        "lockstep: a dataset of batches is needed here: put .batch(n) at the end of this pipeline");
  }

  explicit operator bool() const noexcept { return static_cast<bool>(held_); }

  [[nodiscard]] std::size_t sample_size() const { return held_->sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return held_->target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return held_->weight_size(); }
  [[nodiscard]] std::int64_t cardinality() const { return held_->cardinality(); }
  void begin(Iteration iteration) { held_->begin(iteration); }
  std::size_t next() { return held_->next(); }
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const {
    return held_->sample_indices();
  }
  void read(std::span<const std::size_t> positions, TensorView<float> x, TensorView<float> y) {
    held_->read(positions, x, y);
  }
  void read(std::span<const std::size_t> positions, TensorView<double> x, TensorView<double> y) {
    held_->read(positions, x, y);
  }
  [[nodiscard]] std::int64_t position() const { return held_->position(); }
  void seek(std::int64_t position) { held_->seek(position); }

  [[nodiscard]] AutoShardPolicy auto_shard_policy() const { return held_->auto_shard_policy(); }
  [[nodiscard]] std::size_t prefetch_size() const { return held_->prefetch_size(); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return detail::shape_of_size(held_->sample_shape(), held_->sample_size());
  }
  void describe(PipelineDescription& description) const { held_->describe(description); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return held_->fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return held_->sample_name(i); }
  [[nodiscard]] std::int64_t num_files() const { return held_->num_files(); }
  void shard_files(int num_shards, int index) { held_->shard_files(num_shards, index); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    [[nodiscard]] virtual Interface* clone() const = 0;
    [[nodiscard]] virtual std::size_t sample_size() const = 0;
    [[nodiscard]] virtual std::size_t target_size() const = 0;
    [[nodiscard]] virtual std::size_t weight_size() const = 0;
    [[nodiscard]] virtual std::int64_t cardinality() const = 0;
    virtual void begin(Iteration iteration) = 0;
    virtual std::size_t next() = 0;
    [[nodiscard]] virtual std::span<const std::int64_t> sample_indices() const = 0;
    virtual void read(std::span<const std::size_t> positions, TensorView<float> x,
                      TensorView<float> y) = 0;
    virtual void read(std::span<const std::size_t> positions, TensorView<double> x,
                      TensorView<double> y) = 0;
    [[nodiscard]] virtual std::int64_t position() const = 0;
    virtual void seek(std::int64_t position) = 0;
    [[nodiscard]] virtual AutoShardPolicy auto_shard_policy() const = 0;
    [[nodiscard]] virtual std::size_t prefetch_size() const = 0;
    [[nodiscard]] virtual std::vector<std::size_t> sample_shape() const = 0;
    virtual void describe(PipelineDescription& description) const = 0;
    [[nodiscard]] virtual SourceFingerprint fingerprint() const = 0;
    [[nodiscard]] virtual std::string sample_name(std::int64_t i) const = 0;
    [[nodiscard]] virtual std::int64_t num_files() const = 0;
    virtual void shard_files(int num_shards, int index) = 0;
  };

  template <class D>
  struct Holder final : Interface {
    template <class U>
    explicit Holder(U&& value) : dataset(std::forward<U>(value)) {}
    [[nodiscard]] Interface* clone() const override { return new Holder(dataset); }
    [[nodiscard]] std::size_t sample_size() const override { return dataset.sample_size(); }
    [[nodiscard]] std::size_t target_size() const override { return dataset.target_size(); }
    [[nodiscard]] std::size_t weight_size() const override {
      return detail::weight_size_of(dataset);
    }
    [[nodiscard]] std::int64_t cardinality() const override { return dataset.cardinality(); }
    void begin(Iteration iteration) override { dataset.begin(iteration); }
    std::size_t next() override { return dataset.next(); }
    [[nodiscard]] std::span<const std::int64_t> sample_indices() const override {
      return dataset.sample_indices();
    }
    void read(std::span<const std::size_t> positions, TensorView<float> x,
              TensorView<float> y) override {
      dataset.read(positions, x, y);
    }
    void read(std::span<const std::size_t> positions, TensorView<double> x,
              TensorView<double> y) override {
      dataset.read(positions, x, y);
    }
    [[nodiscard]] std::int64_t position() const override { return dataset.position(); }
    void seek(std::int64_t position) override { dataset.seek(position); }
    [[nodiscard]] AutoShardPolicy auto_shard_policy() const override {
      if constexpr (requires { dataset.auto_shard_policy(); })
        return dataset.auto_shard_policy();
      else
        return AutoShardPolicy::automatic;
    }
    [[nodiscard]] std::size_t prefetch_size() const override {
      if constexpr (requires { dataset.prefetch_size(); })
        return dataset.prefetch_size();
      else
        return 0;
    }
    [[nodiscard]] std::vector<std::size_t> sample_shape() const override {
      if constexpr (requires { dataset.sample_shape(); })
        return dataset.sample_shape();
      else
        return {dataset.sample_size()};
    }
    void describe(PipelineDescription& description) const override {
      if constexpr (requires { dataset.describe(description); }) dataset.describe(description);
    }
    [[nodiscard]] SourceFingerprint fingerprint() const override {
      if constexpr (requires { dataset.fingerprint(); })
        return dataset.fingerprint();
      else
        return {};
    }
    [[nodiscard]] std::string sample_name(std::int64_t i) const override {
      if constexpr (requires { dataset.sample_name(i); })
        return dataset.sample_name(i);
      else
        return concat({"sample ", i});
    }
    [[nodiscard]] std::int64_t num_files() const override {
      if constexpr (requires { dataset.num_files(); })
        return dataset.num_files();
      else
        return 0;
    }
    void shard_files(int num_shards, int index) override {
      if constexpr (requires { dataset.shard_files(num_shards, index); })
        dataset.shard_files(num_shards, index);
    }
    D dataset;
  };

  detail::ClonePtr<Interface> held_;
};

}}  // namespace lockstep
