// UpSampling1D: each token several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/sequence_window.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Each token of a Sequence<T, features> Size times, one after the other. The mask ends here.
template <std::size_t Size = 2>
struct UpSampling1D {
  static_assert(Size > 0, "lockstep: the size of UpSampling1D must be at least 1");
  static constexpr std::string_view name = "up_sampling1d";
  static constexpr std::string_view class_name = "UpSampling1D";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    return detail::check_sequence_window<Position, In,
                                         detail::SequenceWindows<1, 1, Padding::valid>>();
  }

  template <class In>
  using Output = Sequence<positions_of<In> * Size, TokenOf<In>::size>;

  // (The sequences of a batch follow one another without gaps, in x as in y.)

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      const T* const from = pass.x.feature(feature);
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        std::fill_n(pass.y.feature(feature) + i * Size, Size, from[i]);
    }
    pass.y.clear_padding();
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    for (std::size_t feature = 0; feature < TokenOf<In>::size; ++feature) {
      const T* from = pass.dy.feature(feature);
      T* const to = pass.dx.feature(feature);
      for (std::size_t i = 0; i < pass.dx.samples(); ++i, from += Size) {
        to[i] = from[0];
        for (std::size_t k = 1; k < Size; ++k) to[i] += from[k];
      }
    }
    pass.dx.clear_padding();
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
