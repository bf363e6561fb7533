// Cropping1D: sequences without their ends.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/shift_sequences.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/sequence_window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A Sequence<T, features> without its first Left and its last Right tokens; `Cropping1D<2>`: 2 at
/// both ends. The mask ends here.
template <std::size_t Left = 1, std::size_t Right = Left>
struct Cropping1D {
 private:
  using Windows = detail::SequenceWindows<Left + Right + 1, 1, Padding::valid>;

 public:
  static constexpr std::string_view name = "cropping1d";
  static constexpr std::string_view class_name = "Cropping1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In, Windows>();
  }

  template <class In>
  using Output = Sequence<Windows::template outputs<In>, TokenOf<In>::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::shift_sequences<T>({.features = TokenOf<In>::size,
                                 .samples = pass.x.samples() / positions_of<In>,
                                 .from_steps = positions_of<In>,
                                 .from_stride = pass.x.stride(),
                                 .to_steps = Output<In>::positions,
                                 .to_stride = pass.y.stride(),
                                 .skip = Left},
                                pass.x.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::shift_sequences<T>({.features = TokenOf<In>::size,
                                 .samples = pass.x.samples() / positions_of<In>,
                                 .from_steps = Output<In>::positions,
                                 .from_stride = pass.dy.stride(),
                                 .to_steps = positions_of<In>,
                                 .to_stride = pass.dx.stride(),
                                 .pad = Left},
                                pass.dy.data(), pass.dx.data());
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
