// Recompute: layers that run forward again in backward instead of keeping what they computed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/sequential.hpp"

// The scratch of the layers inside lies in temporary memory, which all layers at one depth share:
// so all blocks of a model share one scratch buffer, as large as the largest of them needs.
// What a block keeps is what its second forward must find as the first one did: the mask of its
// input, and the variables that forward changes.

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// What names, files and summaries see: a Sequential of several layers, or the one layer itself.
template <class... Layers>
struct RecomputedInfo {
  static constexpr std::string_view name = Sequential<Layers...>::name;
  static constexpr std::string_view class_name = Sequential<Layers...>::class_name;
  static constexpr std::size_t layer_count = Sequential<Layers...>::layer_count;
  template <class In>
  static constexpr auto layers = Sequential<Layers...>::template layers<In>;
};
template <class L>
struct RecomputedInfo<L> {
  static constexpr std::string_view name = [] {
    if constexpr (NamedLayer<L>)
      return std::string_view(L::name);
    else
      return std::string_view("recompute");  // (LayerAt says that L is no layer)
  }();
  static constexpr std::string_view class_name = class_name_of_type<L>();
  static constexpr bool is_frozen = detail::is_frozen<L>;
};
template <class L>
  requires requires { L::layer_count; }
struct RecomputedInfo<L> {
  static constexpr std::string_view name = L::name;
  static constexpr std::string_view class_name = class_name_of_type<L>();
  static constexpr bool is_frozen = detail::is_frozen<L>;
  static constexpr std::size_t layer_count = L::layer_count;
  template <class In>
  static constexpr auto layers = L::template layers<In>;
};

/// What runs them.
template <class... Layers>
struct RecomputedBody {
  using Type = Sequential<Layers...>;
};
template <class... Layers>
struct RecomputedBody<Sequential<Layers...>> : RecomputedBody<Layers...> {};

/// (For signature.)
template <class... Layers>
struct Recomputed {
  static constexpr std::string_view name = "recompute";
};

/// Where a Recompute has its arrays; sizes in elements. In scratch: a pointer to the mask of x, the
/// mask of y, and copies of the variables that forward changes. In temporary memory: y, where the
/// layers may not write it again to its place; then the layers' scratch and temporary memory.
template <class Body, class In>
struct RecomputePlaces {
  using Out = typename Body::template Output<In>;
  static constexpr std::size_t pointer = padded_batch(1);
  static constexpr std::span<const Variable> state_variables = state_variables_of<Body, In>();

  std::size_t mask, copies, kept, y, scratch, temporary;

  explicit constexpr RecomputePlaces(std::size_t samples)
      : mask(pointer),
        copies(mask + tensor_size<Out>.stride(samples)),
        kept(copies),
        y(0),
        scratch(Body::template adds_to_output<In> ? tensor_size<Out>.elements(samples) : 0),
        temporary(scratch + padded_batch(Body::template scratch<In>(samples))) {
    for (const Variable& variable : state_variables)
      if (!variable.is_constant) kept += padded_batch(variable.size());
  }
};

}  // namespace detail

/// The layers one after the other, whose outputs are not kept for backward: backward runs them
/// forward again, and then back. So of a block its input alone takes memory, and all blocks of a
/// model share the memory of the largest one, for a step that takes at most a third more time.
/// Loss, gradients and all variables have the same bits as without: random masks are keyed, and
/// moving statistics are changed once. It may stand in Repeat, Residual, Recompute and others.
///
/// Around one layer (a Sequential, say), it takes that layer's names; around several, the names of
/// a Sequential of them. Files of weights load with Recompute or without. Inference
/// computes nothing twice. Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory
/// cost", arXiv 1604.06174, 2016.
/// @code
/// using Deep = Sequential<Input<64>, TiedHead<Embedding<65, 128>, Repeat<12, Recompute<Block>>>>;
/// @endcode
/// Use: `Recompute<Dense<20, ReLU>, Dense<20>>`: Shape<20> -> Shape<20>; kernel (20, 20), bias
/// (20), kernel (20, 20), bias (20). Keras: `keras.remat`.
template <class... Layers>
  requires each_layer_has_its_angle_brackets<Layers...>
struct Recompute : detail::RecomputedInfo<Layers...> {
  static_assert(sizeof...(Layers) > 0, "lockstep: Recompute needs at least one layer");
  using Body = typename detail::RecomputedBody<Layers...>::Type;
  using Content = detail::Recomputed<Layers...>;  // see signature
  using AnnouncesGradients = Recompute;
  using JoinsSums = Recompute;
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;

  template <class In>
  using Output = typename Body::template Output<In>;
  template <class In>
  static constexpr auto variables = Body::template variables<In>;
  template <class In>
  static constexpr auto state_variables = Body::template state_variables<In>;

  template <class In>
  static constexpr const detail::KeptFormat* kept_format = Body::template kept_format<In>;
  template <class In>
  static constexpr bool adds_to_output = Body::template adds_to_output<In>;
  template <class In, class T>
  static constexpr bool keeps_dy = Body::template keeps_dy<In, T>;
  template <class In, class T>
  static constexpr bool adds_to_dx = Body::template adds_to_dx<In, T>;
  template <class In, class T>
  static constexpr bool adds_to_dy = Body::template adds_to_dy<In, T>;

  template <class In>
  static constexpr Flop flop = [] {
    Flop all = Body::template flop<In>;
    all.backward += all.forward;
    all.backward_weights += all.forward;
    return all;
  }();

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Places<In>(samples).kept;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return Places<In>(samples).temporary + Body::template temporary<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const Places<In> places(detail::samples_of(pass.x, detail::tensor_size<In>));
    std::memcpy(pass.scratch.data(), &pass.mask, sizeof pass.mask);
    if (pass.context.training)
      each_changing<In>(pass.scratch.data() + places.copies,
                        [&](std::size_t i, T* copy) { std::ranges::copy(pass.state[i], copy); });
    const StepContext context = context_of_body(pass.context);
    const T* mask = nullptr;
    Body::template forward<In, T>({.context = context,
                                   .weights = pass.weights,
                                   .state = pass.state,
                                   .x = pass.x,
                                   .y = pass.y,
                                   .scratch = scratch_of_body(places, pass.temporary),
                                   .mask = pass.mask,
                                   .mask_of_y = &mask,
                                   .temporary = pass.temporary.subspan(places.temporary),
                                   .addend = pass.addend,
                                   .minimum = pass.minimum});
    if (mask != nullptr && mask != pass.mask) {  // it lies in memory that is not kept
      T* const own = pass.scratch.data() + places.mask;
      std::copy_n(mask, pass.y.samples(), own);
      mask = own;
    }
    pass.set_mask(mask);
  }

  /// (Of the layers inside, the last one's output alone is left.)
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    f(first + detail::layer_count_of<Recompute>() - 1, TensorView<const T>(pass.y));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    const Places<In> places = forward_again<In>(pass);
    const StepContext context = context_of_body(pass.context);
    Body::template backward<In, T>(pass_of_body(places, pass, context));
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const Places<In> places = forward_again<In>(pass);
    const StepContext context = context_of_body(pass.context);
    Body::template backward_weights<In, T>(pass_of_body(places, pass, context));
  }

 private:
  template <class In>
  using Places = detail::RecomputePlaces<Body, In>;

  /// Calls f(i, copy) for each variable that forward changes, with where its copy lies.
  template <class In, class T, class F>
  static void each_changing(T* copies, F&& f) {
    for (std::size_t i = 0; i < Places<In>::state_variables.size(); ++i)
      if (const Variable& variable = Places<In>::state_variables[i]; !variable.is_constant) {
        f(i, copies);
        copies += padded_batch(variable.size());
      }
  }

  /// (A layer alone has its time from the container around Recompute.)
  static StepContext context_of_body(const StepContext& context) {
    StepContext own = context;
    if constexpr (!requires { Recompute::layer_count; }) own.trace = nullptr;
    return own;
  }

  template <class In, class T>
  static std::span<T> scratch_of_body(const Places<In>& places, std::span<T> temporary) {
    return temporary.subspan(places.scratch, places.temporary - places.scratch);
  }

  /// Leaves in the layers' scratch what forward has left there, and changes nothing else.
  template <class In, class T>
  static Places<In> forward_again(const BackwardPass<T>& pass) {
    const Places<In> places(detail::samples_of(pass.x, detail::tensor_size<In>));
    StepContext context = context_of_body(pass.context);
    context.activity_penalty = nullptr;
    std::array<std::span<T>, Places<In>::state_variables.size()> state;
    std::ranges::copy(pass.state, state.begin());
    if (context.training)
      each_changing<In>(pass.scratch.data() + places.copies, [&](std::size_t i, T* copy) {
        state[i] = {copy, pass.state[i].size()};
      });
    const T* mask = nullptr;
    std::memcpy(&mask, pass.scratch.data(), sizeof mask);
    const T* mask_of_y = nullptr;
    // (y is written with the bits that it has.)
    T* const y =
        adds_to_output<In> ? pass.temporary.data() + places.y : const_cast<T*>(pass.y.data());
    Body::template forward<In, T>(
        {.context = context,
         .weights = pass.weights,
         .state = state,
         .x = pass.x,
         .y = TensorView<T>(y, pass.y.samples(), pass.y.features(), pass.y.stride()),
         .scratch = scratch_of_body(places, pass.temporary),
         .mask = mask,
         .mask_of_y = &mask_of_y,
         .temporary = pass.temporary.subspan(places.temporary)});
    return places;
  }

  template <class In, class T>
  static BackwardPass<T> pass_of_body(const Places<In>& places, const BackwardPass<T>& pass,
                                      const StepContext& context) {
    return {.context = context,
            .weights = pass.weights,
            .state = pass.state,
            .x = pass.x,
            .y = pass.y,
            .dy = pass.dy,
            .dx = pass.dx,
            .gradients = pass.gradients,
            .scratch = scratch_of_body(places, pass.temporary),
            .temporary = pass.temporary.subspan(places.temporary),
            .keeps_dy = pass.keeps_dy,
            .spare = pass.spare,
            .adds_to_dx = pass.adds_to_dx};
  }
};

namespace detail {

template <class... Layers>
inline constexpr bool ends_linearly<Recompute<Layers...>> = ends_linearly<Sequential<Layers...>>;

template <class L>
inline constexpr bool is_sequential<Recompute<L>> = is_sequential<L>;

}  // namespace detail

}}  // namespace lockstep
