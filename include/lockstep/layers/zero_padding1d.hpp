// ZeroPadding1D: zeros at the ends of sequences.
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

/// Left tokens of zeros before a Sequence<T, features> and Right behind it; `ZeroPadding1D<2>`: 2
/// at both ends. The mask ends here.
template <std::size_t Left = 1, std::size_t Right = Left>
struct ZeroPadding1D {
  static constexpr std::string_view name = "zero_padding1d";
  static constexpr std::string_view class_name = "ZeroPadding1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = Sequence<positions_of<In> + Left + Right, TokenOf<In>::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::shift_sequences<T>({.features = TokenOf<In>::size,
                                 .samples = pass.x.samples() / positions_of<In>,
                                 .from_steps = positions_of<In>,
                                 .from_stride = pass.x.stride(),
                                 .to_steps = Output<In>::positions,
                                 .to_stride = pass.y.stride(),
                                 .pad = Left},
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
                                 .skip = Left},
                                pass.dy.data(), pass.dx.data());
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
