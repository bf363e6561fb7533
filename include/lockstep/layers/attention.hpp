// Attention: its parts, and MultiHeadAttention.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/attention.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of MultiHeadAttention and CrossAttention; the defaults are Keras's.
struct MultiHeadAttentionOptions {
  std::size_t value_dim = 0;     ///< features of a head's values; 0: the key dimension
  double dropout = 0;            ///< of the probabilities: from 0 to 1
  bool use_bias = true;          ///< in all four projections
  bool use_causal_mask = false;  ///< position t sees 0 to t. (In Keras an argument of the call.)
  std::size_t output_shape = 0;  ///< features of the output; 0: those of the query
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  /// Of attention_output's kernel, where it differs: GPT-2 draws it smaller.
  InitializerOption output_kernel_initializer = kernel_initializer;
  // Of all four projections.
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

/// The sizes of one attention, all known at compile time, and the work on them.
struct AttentionLayout {
  std::size_t heads, key_dim, value_dim;
  std::size_t query_width, value_width, output_width;  ///< features of a token
  std::size_t queries, keys;                           ///< positions
  bool use_bias, causal;
  double dropout;

  [[nodiscard]] constexpr std::size_t keys_of_heads() const { return heads * key_dim; }
  [[nodiscard]] constexpr std::size_t values_of_heads() const { return heads * value_dim; }

  [[nodiscard]] constexpr kernels::AttentionSize size(std::size_t samples) const {
    return {.samples = samples,
            .heads = heads,
            .key_size = key_dim,
            .value_size = value_dim,
            .queries = queries,
            .keys = keys,
            .query_stride = padded_batch(samples * queries),
            .key_stride = padded_batch(samples * keys),
            .causal = causal};
  }
  /// Of a sample; a causal attention needs the keys at and before each query.
  [[nodiscard]] constexpr Flop flop() const {
    std::uint64_t pairs = 0;
    for (std::size_t query = 0; query < queries; ++query)
      pairs += causal ? std::min(query + 1, keys) : keys;
    const Flop inputs = product_flop(queries * query_width * keys_of_heads() +
                                     keys * value_width * (keys_of_heads() + values_of_heads()));
    const Flop others = product_flop(pairs * (keys_of_heads() + values_of_heads()) +
                                     queries * values_of_heads() * output_width);
    Flop all = inputs;
    all += others;
    all.backward_weights += others.backward - others.backward_weights;
    return all;
  }
  /// A place in the scratch for each array; `end` is its size.
  struct Places {
    std::size_t q, k, v, o, kept, query_mask, key_mask, flags, end;
  };
  /// The same in the temporary memory.
  struct TemporaryPlaces {
    std::size_t output_gradient, transposed, work, end;
  };
  [[nodiscard]] constexpr Places places(std::size_t samples) const {
    const kernels::AttentionSize s = size(samples);
    Places p{};
    std::size_t next = 0;
    const auto take = [&next](std::size_t& place, std::size_t elements) {
      place = next;
      next += padded_batch(elements);
    };
    take(p.q, keys_of_heads() * s.query_stride);
    take(p.k, keys_of_heads() * s.key_stride);
    take(p.v, values_of_heads() * s.key_stride);
    take(p.o, values_of_heads() * s.query_stride);
    take(p.kept, kernels::attention_kept(s));
    take(p.query_mask, s.query_stride);
    take(p.key_mask, s.key_stride);
    take(p.flags, 2);
    p.end = next;
    return p;
  }
  [[nodiscard]] constexpr TemporaryPlaces temporary_places(std::size_t samples) const {
    const kernels::AttentionSize s = size(samples);
    const std::size_t output_gradient = padded_batch(values_of_heads() * s.query_stride);
    const std::size_t transposed = padded_batch(std::max(
        {kernels::dense_scratch(std::max(keys_of_heads(), output_width), s.query_stride),
         kernels::dense_scratch(std::max(keys_of_heads(), values_of_heads()), s.key_stride)}));
    return {.output_gradient = 0,
            .transposed = output_gradient,
            .work = output_gradient + transposed,
            .end = output_gradient + transposed + padded_batch(kernels::attention_work(s))};
  }
};

/// That of the options, between two sequences.
template <class Queries, class Values>
constexpr AttentionLayout attention_layout(std::size_t heads, std::size_t key_dim,
                                           const MultiHeadAttentionOptions& options) {
  return {.heads = heads,
          .key_dim = key_dim,
          .value_dim = options.value_dim == 0 ? key_dim : options.value_dim,
          .query_width = Queries::Token::size,
          .value_width = Values::Token::size,
          .output_width = options.output_shape == 0 ? Queries::Token::size : options.output_shape,
          .queries = Queries::positions,
          .keys = Values::positions,
          .use_bias = options.use_bias,
          .causal = options.use_causal_mask,
          .dropout = options.dropout};
}

/// The four projections' kernels and biases, under Keras's names.
template <MultiHeadAttentionOptions Options>
consteval auto attention_variables(const AttentionLayout& l) {
  const Fans query_fans{l.query_width, l.keys_of_heads()},
      key_fans{l.value_width, l.keys_of_heads()}, value_fans{l.value_width, l.values_of_heads()},
      output_fans{l.values_of_heads(), l.output_width};
  const auto kernel = [](const Variable& variable) {
    return variable.with(Options.kernel_regularizer, Options.kernel_constraint);
  };
  const auto bias = [](const Variable& variable) {
    return variable.with(Options.bias_regularizer, Options.bias_constraint);
  };
  const Variable query = kernel({"query/kernel",
                                 {l.query_width, l.heads, l.key_dim},
                                 Options.kernel_initializer,
                                 query_fans});
  const Variable key = kernel(
      {"key/kernel", {l.value_width, l.heads, l.key_dim}, Options.kernel_initializer, key_fans});
  const Variable value = kernel({"value/kernel",
                                 {l.value_width, l.heads, l.value_dim},
                                 Options.kernel_initializer,
                                 value_fans});
  const Variable output = kernel({"attention_output/kernel",
                                  {l.heads, l.value_dim, l.output_width},
                                  Options.output_kernel_initializer,
                                  output_fans});
  if constexpr (Options.use_bias)
    return std::array{
        query,
        bias({"query/bias", {l.heads, l.key_dim}, Options.bias_initializer, query_fans}),
        key,
        bias({"key/bias", {l.heads, l.key_dim}, Options.bias_initializer, key_fans}),
        value,
        bias({"value/bias", {l.heads, l.value_dim}, Options.bias_initializer, value_fans}),
        output,
        bias({"attention_output/bias", {l.output_width}, Options.bias_initializer, output_fans})};
  else
    return std::array{query, key, value, output};
}

/// One attention on its arrays: x are the queries' tokens, m those of keys and values. `context`
/// must live as long.
template <class T>
class AttentionWork {
 public:
  AttentionWork(const AttentionLayout& layout, const StepContext& context, std::size_t samples,
                Slices<T> weights, std::span<T> scratch, std::span<T> temporary)
      : layout_(layout),
        context_(context),
        size_(layout.size(samples)),
        places_(layout.places(samples)),
        weights_(weights),
        scratch_(scratch.data()),
        output_gradient_(temporary.data() + layout.temporary_places(samples).output_gradient),
        transposed_(temporary.data() + layout.temporary_places(samples).transposed),
        work_(temporary.data() + layout.temporary_places(samples).work) {}

  /// Masks may be null, and are kept for backward.
  void forward(const T* x, const T* m, const T* query_mask, const T* key_mask, T* y) const {
    project(query, layout_.query_width, size_.query_stride, x, at(places_.q));
    project(key, layout_.value_width, size_.key_stride, m, at(places_.k));
    project(value, layout_.value_width, size_.key_stride, m, at(places_.v));
    keep_mask(query_mask, size_.samples * size_.queries, places_.query_mask, 0);
    keep_mask(key_mask, size_.samples * size_.keys, places_.key_mask, 1);
    T* const o = at(places_.o);
    with_dropout([&](const kernels::AttentionDropout& dropout) {
      kernels::attention_forward<T>(size_, at(places_.q), at(places_.k), at(places_.v), masks(),
                                    dropout, o, at(places_.kept), work_);
    });
    clear_padding(o, layout_.values_of_heads(), size_.samples * size_.queries, size_.query_stride);
    project(output, layout_.values_of_heads(), size_.query_stride, o, y);
  }

  /// dx and dm may be null: not wanted. They may be the same array, which then is the sum of both.
  void backward(const T* x, const T* m, T* dy, Slices<T> gradients, T* dx, T* dm) const {
    T *const q = at(places_.q), *const k = at(places_.k), *const v = at(places_.v),
             *const o = at(places_.o);
    T* const d_output = output_gradient_;
    weight_gradients(output, layout_.values_of_heads(), size_.query_stride, o, dy, gradients);
    input_gradient(output, layout_.values_of_heads(), size_.query_stride, dy, d_output, false);
    with_dropout([&](const kernels::AttentionDropout& dropout) {
      kernels::attention_backward<T>(size_, {q, k, v, o, d_output, q, k, v}, masks(), dropout,
                                     at(places_.kept), work_);
    });
    clear_padding(q, layout_.keys_of_heads(), size_.samples * size_.queries, size_.query_stride);
    clear_padding(k, layout_.keys_of_heads(), size_.samples * size_.keys, size_.key_stride);
    clear_padding(v, layout_.values_of_heads(), size_.samples * size_.keys, size_.key_stride);
    weight_gradients(query, layout_.query_width, size_.query_stride, x, q, gradients);
    weight_gradients(key, layout_.value_width, size_.key_stride, m, k, gradients);
    weight_gradients(value, layout_.value_width, size_.key_stride, m, v, gradients);
    if (dx != nullptr) input_gradient(query, layout_.query_width, size_.query_stride, q, dx, false);
    if (dm == nullptr) return;
    input_gradient(key, layout_.value_width, size_.key_stride, k, dm, dm == dx);
    input_gradient(value, layout_.value_width, size_.key_stride, v, dm, true);
  }

 private:
  enum Projection : std::size_t { query, key, value, output };

  [[nodiscard]] T* at(std::size_t place) const { return scratch_ + place; }

  [[nodiscard]] std::size_t units(Projection p) const {
    return p == output  ? layout_.output_width
           : p == value ? layout_.values_of_heads()
                        : layout_.keys_of_heads();
  }
  [[nodiscard]] T* kernel(Projection p, Slices<T> slices) const {
    return slices[layout_.use_bias ? 2 * p : p].data();
  }
  [[nodiscard]] T* bias(Projection p, Slices<T> slices) const {
    return layout_.use_bias ? slices[2 * p + 1].data() : nullptr;
  }

  void project(Projection p, std::size_t inputs, std::size_t stride, const T* x, T* y) const {
    kernels::dense_forward<T>({inputs, units(p), stride}, x, kernel(p, weights_), bias(p, weights_),
                              y);
  }
  void weight_gradients(Projection p, std::size_t inputs, std::size_t stride, const T* x,
                        const T* dy, Slices<T> gradients) const {
    const kernels::DenseSize size{inputs, units(p), stride};
    kernels::dense_bias_gradient<T>(size, {dy, dy}, bias(p, gradients), transposed_);
    kernels::dense_weight_gradient<T>(size, x, transposed_, kernel(p, gradients));
  }
  void input_gradient(Projection p, std::size_t inputs, std::size_t stride, const T* dy, T* dx,
                      bool adds) const {
    kernels::dense_input_gradient<T>({inputs, units(p), stride}, kernel(p, weights_), dy, dx, {},
                                     adds);
  }

  static void clear_padding(T* data, std::size_t features, std::size_t rows, std::size_t stride) {
    TensorView<T>(data, rows, features, stride).clear_padding();
  }

  /// (Backward is not given the mask again.)
  void keep_mask(const T* mask, std::size_t rows, std::size_t place, std::size_t flag) const {
    at(places_.flags)[flag] = mask == nullptr ? T(0) : T(1);
    if (mask != nullptr) std::copy_n(mask, rows, at(place));
  }
  [[nodiscard]] kernels::AttentionMasks<T> masks() const {
    const T* const flags = at(places_.flags);
    return {flags[0] == T(0) ? nullptr : at(places_.query_mask),
            flags[1] == T(0) ? nullptr : at(places_.key_mask)};
  }

  template <class F>
  void with_dropout(const F& f) const {
    const auto random_key = [this](std::size_t sample) { return context_.random_key(sample); };
    const double rate = context_.training ? layout_.dropout : 0;
    f(kernels::AttentionDropout{static_cast<std::uint64_t>(std::round(rate * 0x1p32)),
                                kept_scale(rate), random_key});
  }

  AttentionLayout layout_;
  const StepContext& context_;
  kernels::AttentionSize size_;
  AttentionLayout::Places places_;
  Slices<T> weights_;
  T* scratch_;
  T *output_gradient_, *transposed_, *work_;  // temporary
};

LOCKSTEP_EXTERN(class AttentionWork<float>);
LOCKSTEP_EXTERN_DOUBLE(class AttentionWork<double>);

}  // namespace detail

/// Self attention, Keras's MultiHeadAttention(Heads, KeyDim) called with one tensor, a Sequence<T,
/// width>. For each head
///
///   q = (x Wq + bq) / sqrt(KeyDim)    k = x Wk + bk    v = x Wv + bv
///   p = dropout(softmax(q k^T))       y = sum over heads of (p v) Wo + bo
///
/// Masked positions are seen by none and see none; the mask travels on. Variables, as in Keras:
/// query/kernel [width x Heads x KeyDim], query/bias [Heads x KeyDim], the same for key, and for
/// value with its own dimension, attention_output/kernel [Heads x value_dim x output] and bias
/// [output]. Vaswani et al., "Attention is all you need", arXiv 1706.03762, 2017.
///
/// Sequences of more than 256 positions keep two numbers for each query and head for backward
/// instead of all of its probabilities. What dropout drops depends on the seed, the step, the
/// layer, the sample's index in the dataset, head and positions alone.
/// Use: `MultiHeadAttention<4, 8>`: Sequence<10, 32> -> Sequence<10, 32>; query/kernel (32, 4, 8),
/// query/bias (4, 8), key/kernel (32, 4, 8), key/bias (4, 8), value/kernel (32, 4, 8), value/bias
/// (4, 8), attention_output/kernel (4, 8, 32), attention_output/bias (32).
template <std::size_t Heads, std::size_t KeyDim,
          MultiHeadAttentionOptions Options = MultiHeadAttentionOptions{}>
struct MultiHeadAttention {
  static_assert(Heads > 0 && KeyDim > 0,
                "lockstep: MultiHeadAttention needs at least one head of at least one feature");
  static_assert(Options.dropout >= 0 && Options.dropout <= 1,
                "lockstep: the dropout of MultiHeadAttention is the part of probabilities that is "
                "dropped: from 0 to 1");

  static constexpr std::string_view name = "multi_head_attention";
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatTokens<Position, In>,
                  "lockstep: MultiHeadAttention needs a sequence of flat tokens, Sequence<T, "
                  "width>: put ls::Embedding or "
                  "ls::ToSequence before it");
    return true;
  }

  template <class In>
  using Output =
      Sequence<In::positions, Options.output_shape == 0 ? In::Token::size : Options.output_shape>;

 private:
  template <class In>
  static constexpr detail::AttentionLayout layout() {
    return detail::attention_layout<In, In>(Heads, KeyDim, Options);
  }

 public:
  template <class In>
  static constexpr auto variables = detail::attention_variables<Options>(layout<In>());

  template <class In>
  static constexpr Flop flop = layout<In>().flop();

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layout<In>().places(samples).end;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return layout<In>().temporary_places(samples).end;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    work<In, T>(pass).forward(pass.x.data(), pass.x.data(), pass.mask, pass.mask, pass.y.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    work<In, T>(pass).backward(pass.x.data(), pass.x.data(), pass.dy.data(), pass.gradients,
                               nullptr, nullptr);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    work<In, T>(pass).backward(pass.x.data(), pass.x.data(), pass.dy.data(), pass.gradients,
                               pass.dx.data(), pass.dx.data());
  }

 private:
  template <class In, class T, class Pass>
  static detail::AttentionWork<T> work(const Pass& pass) {
    return {layout<In>(), pass.context, pass.x.samples() / In::positions,
            pass.weights, pass.scratch, pass.temporary};
  }
};

}}  // namespace lockstep
