// Samples that are made up when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/source.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct GeneratorSizes {
  std::int64_t size = 0;        ///< number of samples
  std::size_t sample_size = 0;  ///< elements per sample
  std::size_t target_size = 0;  ///< elements per target
};

namespace detail {

struct BlankSource {
  GeneratorSizes sizes;

  [[nodiscard]] std::int64_t size() const noexcept { return sizes.size; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sizes.sample_size; }
  [[nodiscard]] std::size_t target_size() const noexcept { return sizes.target_size; }
  void describe(PipelineDescription& description) const { description.add({"from_generator"}); }
  [[nodiscard]] SourceFingerprint fingerprint() const noexcept { return {.samples = sizes.size}; }
  template <class T>
  void read(std::span<const std::int64_t>, TensorView<T> x, TensorView<T> y) const {
    for (const TensorView<T>& view : {x, y})
      for (std::size_t i = 0; i < view.features() * view.stride(); ++i) view.data()[i] = T(0);
  }
};

}  // namespace detail

/// A pipeline of `size` samples that `f(Sample<T>&)` makes up from the sample's index, or from its
/// random key (which depends on seed, iteration and repetition, too). x and y are zero before.
/// Unlike tf.data's, f is called for any sample in any order, so that pipelines over it shuffle,
/// shard and seek like others.
template <class F, class Made = detail::BlankSource>
[[nodiscard]] auto from_generator(F f, GeneratorSizes sizes) {
  return from_source(Made{sizes}).map(std::move(f));
}

}  // namespace lockstep::inline LOCKSTEP_ABI
