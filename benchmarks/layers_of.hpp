// The layers of a model that compute something, with their names and their floating-point
// operations.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "lockstep/core/shape.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"

namespace benchmarks {

/// Of a batch.
template <class At>
constexpr lockstep::Flop flop_of(std::size_t samples) {
  return samples * lockstep::detail::flop_of<typename At::Layer, typename At::Input>();
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

}  // namespace benchmarks
