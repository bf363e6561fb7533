// MixedBFloat16, MixedFloat16: policies of precision, as an argument of compile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/bfloat16.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/loss_scale.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/network/spectral_normalization.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/network/time_distributed.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// What a layer does under a policy. All but `unchanged` round the gradient of their input.
enum class Precision : unsigned char {
  unchanged,  ///< it moves numbers, and computes none
  float32,    ///< nothing else
  output,     ///< it computes in float and rounds its output
  products,   ///< it rounds its output, too, and its products round what they multiply
  operands,   ///< it also reads input, variables and gradient of the output rounded
};

/// By name, so that none of the layers is included.
consteval Precision precision_of(std::string_view name) {
  constexpr std::string_view unchanged[] = {
      "slice",          "to_sequence",      "permute",        "repeat_vector",
      "masking",        "identity",         "cropping1d",     "cropping2d",
      "zero_padding1d", "zero_padding2d",   "zero_padding3d", "activity_regularization",
      "discretization", "category_encoding"};
  // They look numbers up or normalise, with variables of float, as those of Keras do.
  constexpr std::string_view output[] = {
      "embedding",         "position_embedding",  "normalization",      "layer_normalization",
      "rms_normalization", "group_normalization", "batch_normalization"};
  // Their kernels are read by kernels::multiply alone, which rounds as it packs; it adds biases as
  // they are.
  constexpr std::string_view products[] = {"dense", "multi_head_attention"};
  if (std::ranges::find(unchanged, name) != std::end(unchanged)) return Precision::unchanged;
  if (std::ranges::find(output, name) != std::end(output)) return Precision::output;
  if (std::ranges::find(products, name) != std::end(products)) return Precision::products;
  return Precision::operands;
}

/// The numbers of 16 bits of a policy.
struct BFloat16Numbers {
  using Products = kernels::BFloat16Products;
  static constexpr auto round = kernels::round_to_bfloat16;
  static constexpr KeptFormat format{kernels::pack_bfloat16, kernels::unpack_bfloat16};
};
struct Float16Numbers {
  using Products = kernels::Float16Products;
  static constexpr auto round = kernels::round_to_float16;
  static constexpr KeptFormat format{kernels::pack_float16, kernels::unpack_float16};
};

/// Elements of L's scratch, the first ones, that are kept in 16 bits.
template <class L, class In>
constexpr std::size_t packed_scratch(std::size_t size) {
  if constexpr (requires { L::template packed_scratch<In>(size); })
    return L::template packed_scratch<In>(size);
  else
    return 0;
}

/// Whether L keeps nothing but the derivatives of an activation, which then are packed piece by
/// piece, as long as they are in the first-level cache.
template <class L, class In>
inline constexpr bool packs_slopes = false;
template <FusibleLayer L, class In>
  requires(!SequenceLayer<L> && keeps_slope<typename L::OutputActivation> &&
           requires { L::template scratch<In>(std::size_t{}); })
inline constexpr bool packs_slopes<L, In> = [] {
  if constexpr (requires { L::Preactivation::template scratch<In>(std::size_t{}); })
    return L::Preactivation::template scratch<In>(batch_multiple) == 0;
  else
    return true;
}();
/// L, or its Preactivation.
template <class L, bool IsPreactivation>
struct Preactivated {
  using Type = L;
};
template <class L>
struct Preactivated<L, true> {
  using Type = typename L::Preactivation;
};

/// Calls f(first, count, room) for pieces of n elements.
template <class F>
void for_each_piece(std::size_t n, const F& f) {
  alignas(cache_line) float room[2048];
  for (std::size_t first = 0; first < n; first += std::size(room))
    f(first, std::min(std::size(room), n - first), static_cast<float*>(room));
}
/// y = A(y), rounded; its derivatives are packed.
template <class Half, class A>
void activate_packed(const TensorView<float>& y, float* slopes) {
  for_each_piece(elements_of(y), [&](std::size_t first, std::size_t count, float* room) {
    float* const values = y.data() + first;
    activate<A, float>(count, values, values, room);
    Half::round(count, values, values);
    Half::format.pack(count, room, slopes + first / 2);
  });
}
/// dy times these.
template <class Half, class A>
void multiply_packed(const TensorView<float>& dy, const float* slopes) {
  for_each_piece(elements_of(dy), [&](std::size_t first, std::size_t count, float* room) {
    float* const gradients = dy.data() + first;
    Half::format.unpack(count, slopes + first / 2, room);
    activation_gradient<A, float>(count, gradients, nullptr, room, gradients);
  });
}

template <class Half, class L, Precision P>
struct Rounded;

/// Fuses with an activation after it where L does.
template <class Half, class L, Precision P>
struct RoundedFusible : L {};
template <class Half, FusibleLayer L, Precision P>
  requires(P == Precision::products || P == Precision::operands)
struct RoundedFusible<Half, L, P> : L {
  template <class Function>
    requires requires { typename L::template WithActivation<Function>; }
  using WithActivation = Rounded<Half, typename L::template WithActivation<Function>, P>;
  using OutputActivation = typename L::OutputActivation;
  using Preactivation = Rounded<Half, typename L::Preactivation, P>;
};
/// A maximum of what is rounded is rounded, so that the bits are those of two layers.
template <class Half, class L>
  requires requires { typename L::Preactivation; }
struct RoundedFusible<Half, L, Precision::output> : L {
  template <class Function>
    requires has_minimum<Function, float> &&
                 requires { typename L::template WithActivation<Function>; }
  using WithActivation =
      Rounded<Half, typename L::template WithActivation<Function>, Precision::output>;
  using OutputActivation = typename L::OutputActivation;
  using Preactivation = Rounded<Half, typename L::Preactivation, Precision::output>;
};
template <class Half, class Function, class... Layers>
struct RoundedFusible<Half, ActivatedResidual<Function, Layers...>, Precision::output>
    : ActivatedResidual<Function, Layers...> {
  using Preactivation = Rounded<Half, Residual<Layers...>, Precision::output>;
};

/// L as a policy of Half has it: P says how. (Names, shapes, variables and options are those of L.)
template <class Half, class L, Precision P>
struct Rounded : RoundedFusible<Half, L, P> {
  using AnnouncesGradients = std::conditional_t<AnnouncingLayer<L>, Rounded, void>;
  template <class In>
  static constexpr bool backward_ignores_y = !backward_reads_y<L, In>();
  using JoinsSums = std::conditional_t<SummingLayer<L> && P == Precision::output, Rounded, void>;
  template <class In, class T>
  static constexpr bool adds_to_dx = false;  // (it would be rounded with the sum)
  template <class In, class T>
  static constexpr bool adds_to_dy = false;

  template <class In>
  static constexpr const KeptFormat* kept_format =
      P == Precision::float32 ? nullptr : &Half::format;

  /// What L keeps, the first part of it packed.
  template <class In>
    requires requires { L::template scratch<In>(std::size_t{}); }
  static constexpr std::size_t scratch(std::size_t size) {
    if constexpr (packs<In>) return halved(outputs<In>(size));
    return halved(packed_elements<In>(size)) + rest<In>(size);
  }
  /// What L needs, what is rounded for L, and its scratch where that is packed.
  template <class In>
  static constexpr std::size_t temporary(std::size_t size) {
    std::size_t elements = copied<In>(rows<In>(size)) + unpacked_scratch<In>(size);
    if constexpr (requires { Linear<In>::template temporary<In>(size); })
      elements += padded_batch(Linear<In>::template temporary<In>(size));
    return elements;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    static_assert(std::is_same_v<T, float>, "lockstep: a policy of precision is for float");
    with_operands<In>(pass, [&](ForwardPass<T>& own) {
      own.addend = nullptr;
      own.minimum = pass.no_minimum;
      Linear<In>::template forward<In, T>(own);
      keep_scratch<In>(pass, own);
    });
    if constexpr (packs<In>)
      activate_packed<Half, typename L::OutputActivation>(pass.y, pass.scratch.data());
    else if constexpr (P != Precision::float32)
      round_tensor(pass.y);
    if (pass.addend != nullptr) add_rounded(pass);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run<In>(pass, [](const BackwardPass<T>& own) { Linear<In>::template backward<In, T>(own); });
    if (!pass.dx.empty()) round_tensor(pass.dx);
  }

  template <class In, class T>
    requires requires(const BackwardPass<T>& pass) { L::template backward_weights<In, T>(pass); }
  static void backward_weights(const BackwardPass<T>& pass) {
    run<In>(pass,
            [](const BackwardPass<T>& own) { Linear<In>::template backward_weights<In, T>(own); });
  }

  template <class In, class T>
    requires requires(const BackwardPass<T>& pass) { L::template backward_input<In, T>(pass); }
  static void backward_input(const BackwardPass<T>& pass) {
    run<In>(pass,
            [](const BackwardPass<T>& own) { Linear<In>::template backward_input<In, T>(own); });
    round_tensor(pass.dx);
  }

  /// (Predictor computes a few samples as many.)
  template <class In, class T>
  static void forward_few(const FewSamplesPass<T>& pass) = delete;

 private:
  static void round_tensor(const TensorView<float>& view) {
    Half::round(view.features() * view.stride(), view.data(), view.data());
  }

  using Scope = std::conditional_t<P == Precision::products || P == Precision::operands,
                                   typename Half::Products, kernels::Float32Products>;

  template <class In>
  static constexpr bool packs = P != Precision::float32 && packs_slopes<L, In>;
  /// What computes: L, or without the activation whose derivatives are packed.
  template <class In>
  using Linear = typename Preactivated<L, packs<In>>::Type;
  template <class In>
  static constexpr std::size_t outputs(std::size_t stride) {
    return L::template Output<In>::size * stride;
  }

  template <class In>
  static constexpr bool copies_operands =
      P == Precision::operands && !variables_of<L, In>().empty();

  /// The stride of x, from what scratch and temporary are given.
  template <class In>
  static constexpr std::size_t rows(std::size_t size) {
    return SequenceLayer<L> ? tensor_size<In>.stride(size) : size;
  }
  template <class In>
  static constexpr std::size_t copied(std::size_t stride) {
    std::size_t elements = 0;
    if constexpr (copies_operands<In>) {
      for (const Variable& variable : variables_of<L, In>())
        elements += padded_batch(variable.size());
      elements += tensor_size<In>.features * stride;
    }
    return elements;
  }

  /// `size`, as scratch and temporary are given it, of a pass.
  template <class In, class Pass>
  static std::size_t size_of(const Pass& pass) {
    return SequenceLayer<L> ? samples_of(pass.x, tensor_size<In>) : pass.x.stride();
  }
  template <class In>
  static constexpr std::size_t packed_elements(std::size_t size) {
    return P == Precision::float32 ? 0 : packed_scratch<L, In>(size);
  }
  template <class In>
  static constexpr std::size_t unpacked_scratch(std::size_t size) {
    if constexpr (!packs<In> && requires { L::template scratch<In>(size); })
      return packed_elements<In>(size) == 0 ? 0 : padded_batch(L::template scratch<In>(size));
    else
      return 0;
  }
  /// Elements of L's scratch that are kept as they are.
  template <class In>
  static constexpr std::size_t rest(std::size_t size) {
    if constexpr (requires { L::template scratch<In>(size); })
      return L::template scratch<In>(size) - packed_elements<In>(size);
    else
      return 0;
  }
  /// Gives L a scratch in temporary memory, where its own is packed; in backward what was kept.
  template <class In, class Pass>
  static void take_scratch(const Pass& pass, Pass& own) {
    const std::size_t size = size_of<In>(pass), packed = packed_elements<In>(size);
    if (packed == 0 || packs<In>) return;
    own.scratch = own.temporary.first(unpacked_scratch<In>(size));
    own.temporary = own.temporary.subspan(own.scratch.size());
    if constexpr (std::is_same_v<Pass, BackwardPass<float>>) {
      Half::format.unpack(packed, pass.scratch.data(), own.scratch.data());
      std::copy_n(pass.scratch.data() + halved(packed), rest<In>(size),
                  own.scratch.data() + packed);
    }
  }
  template <class In>
  static void keep_scratch(const ForwardPass<float>& pass, const ForwardPass<float>& own) {
    const std::size_t size = size_of<In>(pass), packed = packed_elements<In>(size);
    if (packed == 0 || packs<In>) return;
    Half::format.pack(packed, own.scratch.data(), pass.scratch.data());
    std::copy_n(own.scratch.data() + packed, rest<In>(size), pass.scratch.data() + halved(packed));
  }

  /// Rounded variables and input.
  template <class In>
  struct Copies {
    std::array<std::span<float>, variables_of<L, In>().size()> weights{};
    TensorView<const float> x{};

    void take(Slices<float> from, const TensorView<const float>& input, float* to) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        Half::round(from[i].size(), from[i].data(), to);
        weights[i] = {to, from[i].size()};
        to += padded_batch(from[i].size());
      }
      Half::round(input.features() * input.stride(), input.data(), to);
      x = {to, input.samples(), input.features(), input.stride()};
    }
  };

  /// y = max(y + addend, minimum), rounded, as a container does with outputs that it keeps.
  static void add_rounded(const ForwardPass<float>& pass) {
    kernels::sweep(
        elements_of(pass.y),
        [least = pass.minimum](auto& y, const auto& addend) LOCKSTEP_KERNEL_LAMBDA {
          using V = std::remove_cvref_t<decltype(y)>;
          y = max(addend + y, V(least));
        },
        pass.y.data(), pass.addend);
    round_tensor(pass.y);
  }

  /// Calls f with the pass as L is given it.
  template <class In, class Pass, class F>
  static void with_operands(const Pass& pass, const F& f) {
    Pass own = pass;
    Copies<In> copies;
    if constexpr (copies_operands<In>) {
      copies.take(pass.weights, pass.x, pass.temporary.data());
      own.weights = copies.weights;
      own.x = copies.x;
      own.temporary = pass.temporary.subspan(copied<In>(pass.x.stride()));
    }
    take_scratch<In>(pass, own);
    const Scope scope;
    f(own);
  }
  template <class In, class F>
  static void run(const BackwardPass<float>& pass, const F& f) {
    if constexpr (copies_operands<In>) round_tensor(pass.dy);
    if constexpr (packs<In>)
      multiply_packed<Half, typename L::OutputActivation>(pass.dy, pass.scratch.data());
    with_operands<In>(pass, f);
  }
};

template <class Half, class L, Precision P>
inline constexpr bool ends_linearly<Rounded<Half, L, P>> = ends_linearly<L>;

/// L where the policy is one of Half.
template <class Half, class L>
struct WithHalf {
  /// (Of a container that has no specialisation, products alone: its input may be ids.)
  static constexpr Precision precision =
      requires { L::layer_count; } ? Precision::products : precision_of(L::name);
  using Type =
      std::conditional_t<AliasingLayer<L> || is_input<L> || precision == Precision::unchanged, L,
                         Rounded<Half, L, precision>>;
};
template <class Half, class L>
struct WithHalf<Half, Float32<L>> {
  using Type = Rounded<Half, L, Precision::float32>;
};
template <class Half, class... Layers>
struct WithHalf<Half, Sequential<Layers...>> {
  using Type = Sequential<typename WithHalf<Half, Layers>::Type...>;
};
template <class Half, std::size_t Times, class L>
struct WithHalf<Half, Repeat<Times, L>> {
  using Type = Repeat<Times, typename WithHalf<Half, L>::Type>;
};
template <class Half, class... Layers>
struct WithHalf<Half, Recompute<Layers...>> {
  using Type = Recompute<typename WithHalf<Half, Layers>::Type...>;
};
template <class Half, class L>
struct WithHalf<Half, TimeDistributed<L>> {
  using Type = TimeDistributed<typename WithHalf<Half, L>::Type>;
};
template <class Half, class L, SpectralNormalizationOptions Options>
struct WithHalf<Half, SpectralNormalization<L, Options>> {
  using Type = SpectralNormalization<typename WithHalf<Half, L>::Type, Options>;
};
template <class Half, class L>
struct WithHalf<Half, Frozen<L>> {
  using Type = Frozen<typename WithHalf<Half, L>::Type>;
};
template <class Half, class... Layers>
struct WithHalf<Half, Residual<Layers...>> {
  using Type = Rounded<Half, Residual<typename WithHalf<Half, Layers>::Type...>, Precision::output>;
};
template <class Half, class Merge, class... Branches>
struct WithHalf<Half, Parallel<Merge, Branches...>> {
  using Type =
      Rounded<Half, Parallel<Merge, typename WithHalf<Half, Branches>::Type...>, Precision::output>;
};
template <class Half, class Merge, class L, class... Parts>
struct WithHalf<Half, Shared<Merge, L, Parts...>> {
  using Type = Rounded<
      Half,
      Shared<Merge, typename WithHalf<Half, L>::Type, typename WithHalf<Half, Parts>::Type...>,
      Precision::output>;
};
template <class Half, std::size_t Heads, std::size_t KeyDim, class QueryBranch, class ValueBranch,
          MultiHeadAttentionOptions Options>
struct WithHalf<Half, CrossAttention<Heads, KeyDim, QueryBranch, ValueBranch, Options>> {
  using Type = Rounded<Half,
                       CrossAttention<Heads, KeyDim, typename WithHalf<Half, QueryBranch>::Type,
                                      typename WithHalf<Half, ValueBranch>::Type, Options>,
                       Precision::products>;
};
template <class Half, class ValueBranch, class KeyBranch>
struct WithHalf<Half, ValueAndKey<ValueBranch, KeyBranch>> {
  using Type = ValueAndKey<typename WithHalf<Half, ValueBranch>::Type,
                           typename WithHalf<Half, KeyBranch>::Type>;
};
template <class Half, class QueryBranch, class ValueBranch, AttentionOptions Options>
struct WithHalf<Half, Attention<QueryBranch, ValueBranch, Options>> {
  using Type = Rounded<Half,
                       Attention<typename WithHalf<Half, QueryBranch>::Type,
                                 typename WithHalf<Half, ValueBranch>::Type, Options>,
                       Precision::output>;
};
template <class Half, class QueryBranch, class ValueBranch, AdditiveAttentionOptions Options>
struct WithHalf<Half, AdditiveAttention<QueryBranch, ValueBranch, Options>> {
  using Type = Rounded<Half,
                       AdditiveAttention<typename WithHalf<Half, QueryBranch>::Type,
                                         typename WithHalf<Half, ValueBranch>::Type, Options>,
                       Precision::output>;
};
/// (Its table is read as an Embedding's, and rounded in the products of the head.)
template <class Half, class EmbeddingLayer, class... Layers>
struct WithHalf<Half, TiedHead<EmbeddingLayer, Layers...>> {
  using Type = Rounded<Half,
                       TiedHead<typename WithHalf<Half, EmbeddingLayer>::Type,
                                typename WithHalf<Half, Layers>::Type...>,
                       Precision::products>;
};

/// A whole model, which says its policy to the other ranks.
template <class Net>
struct UnderBFloat16 : WithHalf<BFloat16Numbers, Net>::Type {
  static_assert(
      !requires { Net::device(); },
      "lockstep: MixedBFloat16 computes on the processor: leave out On, or the policy");
  static constexpr std::string_view policy = "mixed_bfloat16";
};
template <class Net>
inline constexpr bool ends_linearly<UnderBFloat16<Net>> =
    ends_linearly<typename WithHalf<BFloat16Numbers, Net>::Type>;

template <class Net, LossScaleOptions Options>
struct UnderFloat16 : WithHalf<Float16Numbers, Net>::Type {
  static_assert(
      !requires { Net::device(); },
      "lockstep: MixedFloat16 computes on the processor: leave out On, or the policy");
  static constexpr std::string_view policy = "mixed_float16";
  static_assert(
      Options.initial_scale >= 1 && Options.dynamic_growth_steps >= 1,
      "lockstep: LossScaleOptions: initial_scale and dynamic_growth_steps are at least 1");
  static constexpr LossScaleOptions loss_scale = Options;
};
template <class Net, LossScaleOptions Options>
inline constexpr bool ends_linearly<UnderFloat16<Net, Options>> =
    ends_linearly<typename WithHalf<Float16Numbers, Net>::Type>;

}  // namespace detail

/// Keras's policy "mixed_bfloat16": layers compute with numbers of bfloat16, and add up in float;
/// variables, their gradients, the optimizer, losses and metrics are float, so that files are the
/// same and fit models of either kind. No loss needs scaling, as bfloat16 has float's range.
/// @code
/// auto model = compile<Net, MixedBFloat16>(strategy, loss, optimizer, metrics...);
/// @endcode
/// A layer reads its input and its kernel rounded to bfloat16, and its output and the gradient of
/// its input are rounded. Embeddings and normalisation compute in float, as in Keras, and round
/// their output; so do activations, pooling and softmax, also that of attention. A layer of the
/// program's own reads all of its variables rounded. Float32<L> takes a layer out.
/// Use: `compile<Net, MixedBFloat16>(MeanSquaredError{}, Adam{})`. Keras: `mixed_bfloat16`.
struct MixedBFloat16 {
  using Scalar = float;
  /// Net, as it runs under the policy.
  template <class Net>
  using Network = detail::UnderBFloat16<Net>;
};

/// MixedFloat16 with another loss scale.
/// Use: `compile<Net, MixedFloat16With<LossScaleOptions{.initial_scale = 1024}>>(Adam{})`. Keras:
/// `LossScaleOptimizer(Adam(), initial_scale=1024)`.
template <LossScaleOptions Options>
struct MixedFloat16With {
  using Scalar = float;
  /// Net, as it runs under the policy.
  template <class Net>
  using Network = detail::UnderFloat16<Net, Options>;
};

/// Keras's policy "mixed_float16": as MixedBFloat16, with numbers of IEEE's binary16, which are
/// more precise and end at 65504; and with the dynamic loss scale of Keras's LossScaleOptimizer,
/// since gradients would fall below 2^-24 otherwise. The gradient of the mean loss is multiplied by
/// the scale (Model::dynamic_scale, 2^15 at first) before backward, and the optimizer sees
/// gradients divided by it. Where the sum of all ranks' gradients is not finite, all ranks leave
/// the update out, `iterations` and moving statistics stay as they were (Keras: these change), and
/// the scale is halved; after 2000 updates without, it is doubled. It is saved with the optimizer's
/// state.
///
/// Within a window of gradient_accumulation_steps one scale applies, and one gradient that is not
/// finite leaves out the update of all (Keras: of its step). Refused: LocalSGD, DiLoCo, parameter
/// servers.
/// Use: `compile<Net, MixedFloat16>(MeanSquaredError{}, Adam{})`. Keras: `mixed_float16`.
struct MixedFloat16 : MixedFloat16With<LossScaleOptions{}> {};

}}  // namespace lockstep
