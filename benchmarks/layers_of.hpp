// The layers of a model that compute something, with their names and their floating-point
// operations.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/core/shape.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/network/layer_chain.hpp"

namespace benchmarks {

namespace detail {
template <class L>
inline constexpr bool is_causal = false;
template <std::size_t Heads, std::size_t KeyDim, lockstep::MultiHeadAttentionOptions Options>
inline constexpr bool is_causal<lockstep::MultiHeadAttention<Heads, KeyDim, Options>> =
    Options.use_causal_mask;
}  // namespace detail

/// Floating-point operations of one product of layer At (forward, weight gradient and input
/// gradient have as many), a multiply-add counted as two; 0 without a kernel. Positions in the
/// padding of a convolution are counted, as is usual.
template <class At>
constexpr double product_flop(std::size_t samples) {
  double flop = 0;
  for (const auto& variable : At::info().variables)
    if (variable.name.ends_with("kernel") && variable.name.find('/') == std::string_view::npos) {
      // (Of two kernels, one after the other, too. A transposed one is applied to each input.)
      constexpr bool of_input = At::Layer::name == "conv2d_transpose";
      constexpr auto extents = At::Output::extents;
      const std::size_t positions = of_input ? At::Input::size / variable.extents[3]
                                             : At::Output::size / extents[extents.size() - 1];
      flop += 2.0 * static_cast<double>(variable.size() * positions * samples);
    } else if (variable.name.ends_with("kernel")) {
      // Of a part of the layer, for each token.
      flop += 2.0 * static_cast<double>(variable.size() *
                                        lockstep::positions_of<typename At::Input> * samples);
    }
  return flop;
}

/// Floating-point operations of the products of queries with keys, and of probabilities with
/// values, forward. Backward has twice as many, even without a gradient of the input. A causal
/// attention needs those at and before each position.
template <class At>
constexpr double attention_flop(std::size_t samples) {
  double flop = 0;
  for (const auto& variable : At::info().variables)
    if (variable.name == "query/kernel" || variable.name == "value/kernel") {
      constexpr std::size_t queries = lockstep::positions_of<typename At::Output>;
      constexpr std::size_t values = lockstep::positions_of<typename At::Input>;
      constexpr double seen = detail::is_causal<typename At::Layer> ? (queries + 1) / 2.0 : values;
      flop += 2.0 * seen *
              static_cast<double>(queries * variable.extents[1] * variable.extents[2] * samples);
    }
  return flop;
}

/// Those of an attention's last projection: its input gradient, too, is needed for the gradients of
/// the other kernels.
template <class At>
constexpr double last_projection_flop(std::size_t samples) {
  double flop = 0;
  for (const auto& variable : At::info().variables)
    if (variable.name == "attention_output/kernel")
      flop += 2.0 * static_cast<double>(variable.size() *
                                        lockstep::positions_of<typename At::Output> * samples);
  return flop;
}

/// Those of a TiedHead's product with its table, forward; backward has twice as many.
template <class At>
constexpr double tied_flop(std::size_t samples) {
  if constexpr (At::Layer::name == "tied_head")
    return 2.0 * static_cast<double>(At::info().variables[0].size() *
                                     lockstep::positions_of<typename At::Output> * samples);
  else
    return 0;
}

/// Bytes of the floats of a batch of samples of shape S.
template <class S>
constexpr double bytes_of(std::size_t samples) {
  return 4.0 * static_cast<double>(S::size * samples);
}

namespace detail {
template <class F, class... At>
void visit_layers(lockstep::detail::LayerList<At...>, const F& f) {
  std::map<std::string, int> seen;
  bool first = true;
  const auto visit = [&]<class L>() {
    if constexpr (!L::aliases) {
      std::string name(L::Layer::name);
      if (const int before = seen[name]++; before > 0) name += "_" + std::to_string(before);
      f.template operator()<L>(name, first);
      first = false;
    }
  };
  (visit.template operator()<At>(), ...);
}
}  // namespace detail

/// Calls f.template operator()<At>(Keras's name, whether it is the first) for each layer that
/// computes, first to last.
template <class Net, class F>
void for_each_layer(const F& f) {
  detail::visit_layers(typename Net::template Chain<typename Net::InputShape>::List{}, f);
}

/// Floating-point operations of the products of one training step: no input gradient of the first
/// layer.
template <class Net>
double step_flop(std::size_t samples) {
  double flop = 0;
  for_each_layer<Net>([&]<class At>(const std::string&, bool first) {
    flop += (first ? 2 : 3) * product_flop<At>(samples);
  });
  return flop;
}

}  // namespace benchmarks
