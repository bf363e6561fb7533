// GlobalMaxPooling1D: the largest value of each feature.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/max_pooling1d.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The largest value of each feature over all positions, masked ones too, as in Keras:
/// Shape<features> from a Sequence<T, features>.
struct GlobalMaxPooling1D {
  static constexpr std::string_view name = "global_max_pooling1d";
  static constexpr std::string_view class_name = "GlobalMaxPooling1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return Pool<In>::template check<Position, In>();
  }

  template <class In>
  using Output = Shape<TokenOf<In>::size>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Pool<In>::template scratch<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    Pool<In>::template forward<In, T>(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    Pool<In>::template backward<In, T>(pass);
  }

 private:
  /// One window: its output, a sequence of one position, lies as a Shape does.
  template <class In>
  using Pool = MaxPooling1D<positions_of<In>>;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
