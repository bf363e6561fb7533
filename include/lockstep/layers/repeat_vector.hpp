// RepeatVector: each sample as a sequence of itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A Sequence<Count, D> whose tokens are all equal to the sample, a Shape<D>.
template <std::size_t Count>
struct RepeatVector {
  static_assert(Count > 0, "lockstep: RepeatVector needs at least one token");

  static constexpr std::string_view name = "repeat_vector";
  static constexpr bool takes_sequences = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatInput<Position, In> && !SequenceInput<Position, In>,
                  "lockstep: RepeatVector needs a flat input, and its input has more dimensions: "
                  "put ls::Flatten before "
                  "it");
    return true;
  }

  template <class In>
  using Output = Sequence<Count, In::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const T* const from = pass.x.feature(f);
      T* const to = pass.y.feature(f);
      for (std::size_t sample = 0; sample < pass.x.samples(); ++sample)
        std::fill_n(to + sample * Count, Count, from[sample]);
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const T* const from = pass.dy.feature(f);
      T* const to = pass.dx.feature(f);
      for (std::size_t sample = 0; sample < pass.dx.samples(); ++sample) {
        T sum = from[sample * Count];
        for (std::size_t t = 1; t < Count; ++t) sum += from[sample * Count + t];
        to[sample] = sum;
      }
    }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
