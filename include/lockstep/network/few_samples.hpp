// A network of layers that compute a few samples without padding.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The layers of a network for a few samples, one after the other. `computes`: all of them are
/// FewSamplesLayers; `widest`: elements of a sample between two layers, at most.
template <class In, class T, class... Layers>
struct FewSamplesChain {
  static constexpr bool computes = false;
};

template <class In, class T>
struct FewSamplesChain<In, T> {
  static constexpr bool computes = !is_sequence<In>;
  static constexpr std::size_t widest = 0;
  static std::size_t scratch(std::size_t /*samples*/) { return 0; }
  static const T* forward(const FewSamplesPass<T>& pass, T* /*free*/) { return pass.x; }
};

template <class In, class T, class... Inner, class... Rest>
struct FewSamplesChain<In, T, Sequential<Inner...>, Rest...>
    : FewSamplesChain<In, T, Inner..., Rest...> {};

template <class In, class T, class... Inner, class... Rest>
struct FewSamplesChain<In, T, Recompute<Inner...>, Rest...>
    : FewSamplesChain<In, T, Inner..., Rest...> {};

template <class In, class T, AliasingLayer L, class... Rest>
  requires(!is_sequence<In>)
struct FewSamplesChain<In, T, L, Rest...>
    : FewSamplesChain<typename L::template Output<In>, T, Rest...> {};

template <class In, class T, FewSamplesLayer<In, T> L, class... Rest>
  requires(!is_sequence<In> && state_variables_of<L, In>().empty())
struct FewSamplesChain<In, T, L, Rest...> {
  using Out = typename L::template Output<In>;
  using Next = FewSamplesChain<Out, T, Rest...>;
  static constexpr bool computes = Next::computes;
  static constexpr std::size_t widest = [] {
    if constexpr (computes)
      return std::max(Out::size, Next::widest);
    else
      return std::size_t{0};
  }();

  static std::size_t scratch(std::size_t samples) {
    if constexpr (requires { L::template scratch<In>(samples); })
      return std::max(L::template scratch<In>(samples), Next::scratch(samples));
    else
      return Next::scratch(samples);
  }

  /// The outputs, in pass.y or `free`: two arrays of `widest` elements a sample, of which pass.x is
  /// none.
  static const T* forward(const FewSamplesPass<T>& pass, T* free) {
    constexpr std::size_t own = variables_of<L, In>().size();
    L::template forward_few<In, T>(
        {pass.samples, pass.weights.first(own), pass.x, pass.y, pass.scratch});
    return Next::forward({pass.samples, pass.weights.subspan(own), pass.y, free, pass.scratch},
                         pass.y);
  }
};

/// The most samples that are a few: with more, the padding of a batch costs less than reading
/// weights in their order saves.
inline constexpr std::size_t few_samples = 4;

/// A network for a few samples, as what is no template of it sees it.
template <class T>
struct FewSamples {
  std::size_t widest = 0;  ///< elements of a sample between two layers
  std::size_t (*scratch)(std::size_t samples) = nullptr;
  /// Null: a layer computes batches alone.
  const T* (*forward)(const FewSamplesPass<T>& pass, T* free) = nullptr;
};

template <class Net, class T>
constexpr FewSamples<T> few_samples_of() {
  using Chain = FewSamplesChain<typename Net::InputShape, T, Net>;
  if constexpr (Chain::computes)
    return {Chain::widest, Chain::scratch, Chain::forward};
  else
    return {};
}

}}}  // namespace lockstep::detail
