// Where a layer and its arrays are in a container.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

// The container's scratch holds the outputs of all layers but the last one, which writes to the
// container's output, and the layers' scratch. Its temporary memory holds the gradients between
// layers and the outputs that are kept in 16 bits (see KeptFormat), unpacked; they alternate
// between both ends of one area (see InTurn). The temporary memory of the layer that runs comes
// after it. Forward has no gradients: its outputs lie where backward has these.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// How large the tensor of a batch is. A row is a sample or, in a Sequence, a token.
struct TensorSize {
  std::size_t features = 0;   ///< of a row
  std::size_t positions = 1;  ///< rows of a sample

  friend constexpr bool operator==(const TensorSize&, const TensorSize&) = default;

  [[nodiscard]] constexpr std::size_t stride(std::size_t samples) const {
    return padded_batch(samples * positions);
  }
  [[nodiscard]] constexpr std::size_t elements(std::size_t samples) const {
    return features * stride(samples);
  }
  template <class T>
  [[nodiscard]] TensorView<T> view(T* data, std::size_t samples) const {
    return {data, samples * positions, features, stride(samples)};
  }
};

/// Samples in a tensor of that size.
template <class T>
[[nodiscard]] std::size_t samples_of(const TensorView<T>& view, const TensorSize& size) {
  return view.samples() / size.positions;
}

/// How an output is kept for backward in half the memory. While layers run forward, and again while
/// they run backward, it lies in temporary memory as it was. n is a multiple of 16; packed numbers
/// take halved(n) elements.
struct KeptFormat {
  void (*pack)(std::size_t n, const float* from, float* to);
  void (*unpack)(std::size_t n, const float* from, float* to);
};
[[nodiscard]] constexpr std::size_t halved(std::size_t elements) {
  return padded_batch((elements + 1) / 2);
}

/// A layer's place in its container. `first_...`: the sum of that figure over the layers before it.
struct LayerPlace {
  std::size_t position = 0;  ///< of the layer in the flattened container
  TensorSize input;
  TensorSize output;
  std::size_t first_variable = 0, variables = 0;
  std::size_t first_state_variable = 0, state_variables = 0;
  std::size_t (*scratch)(std::size_t samples) = nullptr;    ///< elements; null: none
  std::size_t (*temporary)(std::size_t samples) = nullptr;  ///< elements; null: none
  std::size_t positions = 1;                                ///< of StepContext
  bool keeps_mask = true;                                   ///< y has the mask of x
  bool is_container = false;                                ///< its layers have their own times
  bool adds_to_output = false;                              ///< see SummingLayer
  const KeptFormat* kept = nullptr;                         ///< of the output; null: as it is
  bool reads_y = true;                                      ///< in backward, its output
  bool throws_gradient = false;  ///< as the first to go back it writes a dx that is not wanted

  [[nodiscard]] constexpr std::size_t scratch_size(std::size_t samples) const {
    return scratch == nullptr ? 0 : scratch(samples);
  }
  [[nodiscard]] constexpr std::size_t temporary_size(std::size_t samples) const {
    return temporary == nullptr ? 0 : temporary(samples);
  }
  /// Elements of the output as it is kept.
  [[nodiscard]] constexpr std::size_t kept_size(std::size_t samples) const {
    const std::size_t elements = output.elements(samples);
    return kept == nullptr ? elements : halved(elements);
  }
  template <class T>
  void pack_output(const TensorView<T>& y, T* to) const {
    if constexpr (std::is_same_v<T, float>)
      if (kept != nullptr) kept->pack(y.features() * y.stride(), y.data(), to);
  }
  /// Returns where the output is: `packed`, if it is kept as it is, or `room`.
  template <class T>
  [[nodiscard]] T* unpack_output(T* packed, T* room, std::size_t samples) const {
    if (kept == nullptr) return packed;
    if constexpr (std::is_same_v<T, float>) kept->unpack(output.elements(samples), packed, room);
    return room;
  }
  /// What the layer is told.
  [[nodiscard]] StepContext context(const StepContext& container) const {
    StepContext own = container;
    own.layer += position;
    own.positions *= positions;  // (more than 1 in TimeDistributed)
    return own;
  }
};

/// Elements of the outputs that are kept between layers.
[[nodiscard]] constexpr std::size_t kept_elements(std::span<const LayerPlace> layers,
                                                  std::size_t samples) {
  std::size_t elements = 0;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) elements += layers[i].kept_size(samples);
  return elements;
}

/// Elements of the gradients between layers, of which two at a time are in use: a layer reads one
/// (the last layer the container's) and writes the other.
[[nodiscard]] constexpr std::size_t gradient_elements(std::span<const LayerPlace> layers,
                                                      std::size_t samples) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t given = i + 1 < layers.size() ? layers[i].output.elements(samples) : 0;
    const bool writes = i > 0 || layers[i].throws_gradient;
    most = std::max(most, given + (writes ? layers[i].input.elements(samples) : 0));
  }
  return most;
}

/// Elements of layer i's output when it is unpacked; 0: it is not packed.
[[nodiscard]] constexpr std::size_t unpacked_output(std::span<const LayerPlace> layers,
                                                    std::size_t i, std::size_t samples) {
  return i + 1 < layers.size() && layers[i].kept != nullptr ? layers[i].output.elements(samples)
                                                            : 0;
}
/// Elements of unpacked outputs: of those that a layer reads in backward, or in forward, where it
/// also writes one.
[[nodiscard]] constexpr std::size_t unpacked_elements(std::span<const LayerPlace> layers,
                                                      std::size_t samples, bool forward) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    most = std::max(most,
                    (i > 0 ? unpacked_output(layers, i - 1, samples) : 0) +
                        (forward || layers[i].reads_y ? unpacked_output(layers, i, samples) : 0));
  return most;
}

/// Elements of scratch that the container needs. The layers' begins behind kept_elements().
[[nodiscard]] constexpr std::size_t container_scratch(std::span<const LayerPlace> layers,
                                                      std::size_t samples) {
  std::size_t size = kept_elements(layers, samples);
  for (const LayerPlace& layer : layers) size += layer.scratch_size(samples);
  return size;
}

/// Where its layers' temporary memory begins in that of the container.
[[nodiscard]] constexpr std::size_t first_temporary(std::span<const LayerPlace> layers,
                                                    std::size_t samples) {
  return std::max(unpacked_elements(layers, samples, true),
                  gradient_elements(layers, samples) + unpacked_elements(layers, samples, false));
}

/// Memory for arrays of which two that follow each other are in use: at its beginning and at its
/// end, in turn.
template <class T>
struct InTurn {
  T* begin = nullptr;
  std::size_t size = 0;

  [[nodiscard]] T* at(std::size_t turn, std::size_t elements) const {
    return turn % 2 == 0 ? begin : begin + (size - elements);
  }
};

/// Elements of temporary memory that the container needs.
[[nodiscard]] constexpr std::size_t container_temporary(std::span<const LayerPlace> layers,
                                                        std::size_t samples) {
  std::size_t largest = 0;
  for (const LayerPlace& layer : layers) largest = std::max(largest, layer.temporary_size(samples));
  return first_temporary(layers, samples) + largest;
}

/// What L is given where the container has In: a token of a Sequence, unless L is a SequenceLayer.
template <class L, class In>
struct Given {
  using Type = TokenOf<In>;
  static constexpr std::size_t positions = positions_of<In>;
  static constexpr bool by_token = is_sequence<In>;
};
template <SequenceLayer L, class In>
struct Given<L, In> {
  using Type = In;
  static constexpr std::size_t positions = 1;
  static constexpr bool by_token = false;
};

/// What the container has after L.
template <class L, class In>
struct OutputShape {
  using Type = typename L::template Output<In>;
};
template <class L, class In>
  requires Given<L, In>::by_token
struct OutputShape<L, In> {
  using OfToken = typename L::template Output<TokenOf<In>>;
  static_assert(
      !is_sequence<OfToken>,
      "lockstep: this layer makes a Sequence of each sample, and its input is a Sequence already");
  using Type = SequenceOf<In::positions, OfToken>;
};

/// (Of a Sequence, another shape is no alias.)
template <class L, class In>
inline constexpr bool aliases_input = false;
template <AliasingLayer L, class In>
inline constexpr bool aliases_input<L, In> = !(SequenceLayer<L> && is_sequence<In>);

template <class S>
inline constexpr TensorSize tensor_size{.features = TokenOf<S>::size, .positions = positions_of<S>};

/// What scratch and temporary are asked for: samples, or the stride of the rows.
template <class L, class In>
constexpr std::size_t size_given(std::size_t samples) {
  return SequenceLayer<L> ? samples : tensor_size<In>.stride(samples);
}

/// Elements that L keeps from forward to backward, rounded up so that what follows stays aligned.
template <class L, class In>
constexpr std::size_t scratch_of(std::size_t samples) {
  return padded_batch(L::template scratch<typename Given<L, In>::Type>(size_given<L, In>(samples)));
}

/// Elements that L needs while it runs, likewise.
template <class L, class In>
constexpr std::size_t temporary_of(std::size_t samples) {
  return padded_batch(
      L::template temporary<typename Given<L, In>::Type>(size_given<L, In>(samples)));
}

}}}  // namespace lockstep::detail
