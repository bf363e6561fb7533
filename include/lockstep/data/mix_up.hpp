// Blends of two samples.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Of Beta(alpha, alpha).
[[nodiscard]] double symmetric_beta(RandomStream& random, double alpha);

/// A batch of pairs: each sample, another one of the batch, and the key of their weight.
void pair_samples(ElementSpan own, RandomKey key, ElementBatch& pairs);

/// The weights of such pairs.
void draw_weights(ElementSpan pairs, double alpha, std::vector<double>& weights);

}  // namespace detail

/// Blends each sample of a batch, and its target, with another one: w * own + (1 - w) * other, w of
/// Beta(alpha, alpha) for each sample, the others being the batch in another order (Keras's MixUp;
/// Zhang et al., "mixup: beyond empirical risk minimization", 2018). Targets must be numbers that
/// can be blended: probabilities of classes, not their numbers. Each rank reads two samples for
/// one. What is drawn depends on seed, pass and sample, not on the number of workers and replicas.
/// @code
/// images.shuffle(60'000).batch(128).apply<MixUp>(0.2)
/// @endcode
template <class Upstream>
class MixUp : public Transform<Upstream> {
  static_assert(
      std::is_same_v<typename Upstream::item_type, ElementBatch>,
      "lockstep: MixUp blends the samples of a batch: write .apply<MixUp>(alpha) after .batch(n)");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Without a seed, the run's is used. Throws ConfigurationError unless alpha is above 0.
  explicit MixUp(Upstream upstream, double alpha = 0.2, std::optional<std::uint64_t> seed = {})
      : Transform<Upstream>(std::move(upstream)), alpha_(alpha), seed_(seed) {
    if (!(alpha > 0) || !std::isfinite(alpha))
      throw ConfigurationError(concat({"MixUp: alpha must be above 0, got ", alpha}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    key_ = seed_ ? RandomKey(*seed_) : RandomKey(pass.seed).fold_in(MixUp::depth);
    key_ = key_.fold_in(pass.path.value());
    position_ = 0;
  }

  bool next(ElementBatch& batch) {
    if (!upstream_.next(own_)) return false;
    detail::pair_samples(own_, key_.fold_in(static_cast<std::uint64_t>(position_++)), batch);
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t moved = upstream_.advance(n);
    position_ += moved;
    return moved;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"MixUp(", alpha_, seed_ ? concat({", seed ", *seed_}) : std::string(), ")"});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    const std::size_t count = samples.indices.size();
    detail::parts_numbered(samples, 0, own_);
    upstream_.read(own_, x, y);
    detail::parts_numbered(samples, 1, own_);
    const TensorView<T> other_x = samples_.template view<T>(count, x.features());
    const TensorView<T> other_y = targets_.template view<T>(count, y.features());
    upstream_.read(own_, other_x, other_y);
    detail::draw_weights(samples, alpha_, weights_);
    blend(x, other_x);
    blend(y, other_y);
  }

 private:
  template <class T>
  void blend(TensorView<T> own, TensorView<T> other) const {
    for (std::size_t f = 0; f < own.features(); ++f)
      for (std::size_t i = 0; i < own.samples(); ++i) {
        const T weight = static_cast<T>(weights_[i]);
        own(i, f) = weight * own(i, f) + (1 - weight) * other(i, f);
      }
  }

  double alpha_;
  std::optional<std::uint64_t> seed_;
  RandomKey key_{};
  std::int64_t position_ = 0;
  ElementBatch own_;
  std::vector<double> weights_;
  detail::Scratch samples_;
  detail::Scratch targets_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/mix_up.ipp"
#endif
