// Vectors of ids, and of positions.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/transpose.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of Embedding; the defaults are Keras's.
struct EmbeddingOptions {
  bool mask_zero = false;  ///< positions whose id is 0 do not count: they are masked
  InitializerOption embeddings_initializer = random_uniform;
  Regularizer embeddings_regularizer = {};
  Constraint embeddings_constraint = {};
};

namespace detail {

/// ids[sample * positions + position] from x, [position][stride]. Throws BadSample unless each is
/// one of 0, 1, ..., vocabulary - 1.
template <class T>
void read_ids(TensorView<const T> x, std::size_t vocabulary, T* ids) {
  const std::size_t positions = x.features();
  for (std::size_t sample = 0; sample < x.samples(); ++sample)
    for (std::size_t position = 0; position < positions; ++position) {
      const T id = x(sample, position);
      if (!(id >= T(0) && id < static_cast<T>(vocabulary) && id == std::floor(id)))
        throw BadSample(concat({"Embedding: the id at position ", position, " of "}), sample,
                        concat({" is ", number_text(static_cast<double>(id)),
                                "; expected a whole number from 0 to ", vocabulary - 1}));
      ids[sample * positions + position] = id;
    }
}

LOCKSTEP_EXTERN(void read_ids<float>(TensorView<const float>, std::size_t, float*));
LOCKSTEP_EXTERN_DOUBLE(void read_ids<double>(TensorView<const double>, std::size_t, double*));

}  // namespace detail

/// A sample of Shape<T> holds T ids, whole numbers below Vocabulary; of each the row of a table is
/// taken: y[t] = embeddings[x[t]], a Sequence<T, Width>. Variable: embeddings [Vocabulary x Width].
/// Keras's Embedding.
///
/// An id that is no whole number, or out of range, ends the training with an error that names it.
/// With mask_zero the positions of id 0 are masked: attention and recurrence pass them over, and
/// losses and metrics do not count them.
/// Use: `Embedding<1000, 16>`: Shape<20> -> Sequence<20, 16>; embeddings (1000, 16).
template <std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options = EmbeddingOptions{}>
struct Embedding {
  static_assert(Vocabulary > 0 && Width > 0,
                "lockstep: Embedding needs at least one id and a width of at least one");

  static constexpr std::string_view name = "embedding";
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        IdInput<Position, In>,
        "lockstep: Embedding needs samples of ids, Shape<T>, and its input has more dimensions");
    return true;
  }

  template <class In>
  using Output = Sequence<In::size, Width>;

  template <class In>
  static constexpr Flop flop{};  // rows are copied

  template <class In>
  static constexpr std::array variables{Variable{
      "embeddings", {Vocabulary, Width}, Options.embeddings_initializer, Fans{Vocabulary, Width}}
                                            .with(Options.embeddings_regularizer,
                                                  Options.embeddings_constraint)
                                            .as_table()};

  /// The ids, a sample after the other, and the mask.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return (Options.mask_zero ? 2 : 1) * In::size * samples;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    static_assert(Vocabulary <= std::size_t{1} << std::numeric_limits<T>::digits,
                  "lockstep: Embedding has more ids than the scalar type has whole numbers (float: "
                  "2^24 = 16,777,216): compile the model with double");
    T* const ids = pass.scratch.data();
    const std::size_t tokens = In::size * pass.x.samples();
    detail::read_ids<T>(pass.x, Vocabulary, ids);
    kernels::gather_rows<T>(
        {pass.weights[0].data(), Width, ids, tokens, pass.y.stride(), pass.y.data(), Vocabulary});
    if constexpr (Options.mask_zero) {
      T* const mask = ids + tokens;
      std::transform(ids, ids + tokens, mask, [](T id) { return id == T(0) ? T(0) : T(1); });
      pass.set_mask(mask);
    }
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    std::fill(pass.gradients[0].begin(), pass.gradients[0].end(), T(0));
    add_gradient<In, T>(pass);
  }

  /// Adds to the gradient that is there (see TiedHead).
  template <class In, class T>
  static void add_gradient(const BackwardPass<T>& pass) {
    kernels::dispatch(kernels::ScatterRows<T>{pass.dy.data(), pass.scratch.data(),
                                              In::size * pass.x.samples(), pass.dy.stride(), Width,
                                              pass.gradients[0].data()});
  }

  /// Ids have no gradient: it is zero.
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
  }
};

/// Compile-time options of PositionEmbedding; the default is Keras Hub's.
struct PositionEmbeddingOptions {
  InitializerOption initializer = glorot_uniform;
};

/// y[t] = x[t] + embeddings[t], for a Sequence<T, width> of at most MaxPositions positions.
/// Variable: embeddings [MaxPositions x width], of which the first T rows are used. Keras Hub's
/// PositionEmbedding with the sum that follows it; the wpe of GPT-2.
/// Use: `PositionEmbedding<20>`: Sequence<20, 16> -> Sequence<20, 16>; embeddings (20, 16). Keras:
/// none (KerasHub has it).
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
  static constexpr Flop flop{};

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

}}  // namespace lockstep
