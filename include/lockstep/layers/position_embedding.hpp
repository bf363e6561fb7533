// PositionEmbedding: a vector for each position, added.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/position_sums.hpp"
#include "lockstep/kernels/transpose_part.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Compile-time options of PositionEmbedding; the default is Keras Hub's.
struct PositionEmbeddingOptions {
  InitializerOption initializer = glorot_uniform;
};

/// y[t] = x[t] + embeddings[t], for a Sequence<T, width> of at most MaxPositions positions.
/// Variable: embeddings [MaxPositions x width], of which the first T rows are used. Keras Hub's
/// PositionEmbedding with the sum that follows it; the wpe of GPT-2.
template <std::size_t MaxPositions, PositionEmbeddingOptions Options = PositionEmbeddingOptions{}>
struct PositionEmbedding {
  static constexpr std::string_view name = "position_embedding";
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;
  static constexpr bool backward_in_place = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(SequenceInput<Position, In>,
                  "lockstep: PositionEmbedding needs a sequence: put ls::Embedding or "
                  "ls::ToSequence before it");
    static_assert(
        SequenceOfAtMost<Position, In, MaxPositions>,
        "lockstep: PositionEmbedding has fewer positions than its input: give it as many");
    return true;
  }

  template <class In>
  using Output = In;

  template <class In>
  static constexpr std::array variables{Variable{"embeddings",
                                                 {MaxPositions, In::Token::size},
                                                 Options.initializer,
                                                 Fans{MaxPositions, In::Token::size}}};

  /// The embeddings, and in backward their gradient, transposed.
  template <class In>
  static constexpr std::size_t scratch(std::size_t) {
    return In::Token::size * padded_batch(In::positions);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    constexpr std::size_t width = In::Token::size, step = padded_batch(In::positions);
    T* const offsets = pass.scratch.data();
    kernels::dispatch(kernels::TransposePart<T>{pass.weights[0].data(), In::positions, width, width,
                                                offsets, step, step});
    kernels::dispatch(
        kernels::AddPositions<T>{size<In>(pass.x), pass.x.data(), offsets, pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr std::size_t width = In::Token::size, step = padded_batch(In::positions);
    T* const sums = pass.scratch.data();
    T* const gradient = pass.gradients[0].data();
    kernels::dispatch(kernels::SumPositions<T>{size<In>(pass.dy), pass.dy.data(), sums});
    kernels::dispatch(
        kernels::TransposePart<T>{sums, width, In::positions, step, gradient, width, width});
    std::fill(gradient + In::size, gradient + MaxPositions * width, T(0));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    if (pass.dx.data() != pass.dy.data())
      std::copy_n(pass.dy.data(), In::Token::size * pass.dy.stride(), pass.dx.data());
  }

 private:
  template <class In, class T>
  static kernels::PositionSize size(const TensorView<T>& rows) {
    return {.samples = rows.samples() / In::positions,
            .positions = In::positions,
            .features = In::Token::size,
            .stride = rows.stride(),
            .step = padded_batch(In::positions)};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
