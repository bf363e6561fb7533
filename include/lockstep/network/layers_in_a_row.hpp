// What all containers that run their layers one after the other have in common.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/run_layers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A ContainerLayer, but for its name and Output. `Tables` has layer_count, layers<In>, and what
/// run_layers.hpp needs: places<In>, forward_calls<In, T>, backward_calls<In, T, InputGradient>.
template <class Tables>
struct LayersInARow {
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr std::size_t layer_count = Tables::layer_count;

  template <class In>
  static constexpr auto layers = Tables::template layers<In>;

  /// The trained variables of all layers, first layer first.
  template <class In>
  static constexpr auto variables =
      concatenate<&LayerInfo::variables, variable_count<&LayerInfo::variables>(layers<In>)>(
          layers<In>);
  template <class In>
  static constexpr auto state_variables =
      concatenate<&LayerInfo::state_variables,
                  variable_count<&LayerInfo::state_variables>(layers<In>)>(layers<In>);

  // As SummingLayer says. (Of one layer alone, what is added to dy might be read again.)
  template <class In>
  static constexpr bool adds_to_output = [] {
    bool adds = false;
    for (const LayerPlace& layer : Tables::template places<In>) adds = layer.adds_to_output;
    return adds;
  }();
  template <class In, class T>
  static constexpr bool keeps_dy = !Tables::template backward_calls<In, T, true>.empty() &&
                                   Tables::template backward_calls<In, T, true>.back().keeps_dy;
  template <class In, class T>
  static constexpr bool adds_to_dx =
      !Tables::template backward_calls<In, T, true>.empty() &&
      Tables::template backward_calls<In, T, true>.front().adds_to_dx;
  template <class In, class T>
  static constexpr bool adds_to_dy = Tables::template backward_calls<In, T, true>.size() > 1 &&
                                     keeps_dy<In, T>&& adds_to_dx<In, T>;

  /// Elements: all inner activations, and the layers' own scratch.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return container_scratch(Tables::template places<In>, samples);
  }
  /// Elements: two gradients between layers, and what one layer needs.
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return container_temporary(Tables::template places<In>, samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    run_forward<T>(Tables::template places<In>, Tables::template forward_calls<In, T>, pass);
  }

  /// Calls f(position, y) for the output of each layer that computes one, as forward has left them.
  /// `first` is the position of this container in the flattened model.
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    visit_outputs<T>(Tables::template places<In>, Tables::template forward_calls<In, T>, first,
                     pass, OutputVisitor<T>(f));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<T>(Tables::template places<In>, Tables::template backward_calls<In, T, true>,
                    pass);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<T>(Tables::template places<In>, Tables::template backward_calls<In, T, false>,
                    pass);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
