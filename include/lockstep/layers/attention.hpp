// Attention: its parts, MultiHeadAttention and GroupQueryAttention.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/attention.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/rotary.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/low_rank.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/random_factors.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of MultiHeadAttention and CrossAttention; the defaults are Keras's.
struct MultiHeadAttentionOptions {
  std::size_t value_dim = 0;       ///< features of a head's values; 0: the key dimension
  double dropout = 0;              ///< of the probabilities: from 0 to 1
  bool use_bias = true;            ///< in all four projections
  bool use_causal_mask = false;    ///< position t sees 0 to t. (In Keras an argument of the call.)
  std::size_t sliding_window = 0;  ///< position t sees this many, itself the last; 0: all
  /// Rotary positions with this base, as Llama has them (10000): queries and keys turn; 0: none.
  double rope_theta = 0;
  std::size_t num_key_value_heads = 0;  ///< see GroupQueryAttention; 0: as many as of queries
  std::size_t output_shape = 0;         ///< features of the output; 0: those of the query
  InitializerOption kernel_initializer = glorot_uniform;
  InitializerOption bias_initializer = zeros;
  /// For attention_output's kernel, where it differs: GPT-2 draws it smaller.
  InitializerOption output_kernel_initializer = kernel_initializer;
  // For all four projections.
  Regularizer kernel_regularizer = {};
  Regularizer bias_regularizer = {};
  Constraint kernel_constraint = {};
  Constraint bias_constraint = {};
};

namespace detail {

/// How queries and keys are compared: by products of what is made of them by kernels, or as they
/// are, by Attention and AdditiveAttention.
enum class AttentionScore { projected, dot, concat, additive };

/// The sizes of one attention, all known at compile time, and the work on them.
struct AttentionLayout {
  std::size_t heads, key_value_heads, key_dim, value_dim;
  std::size_t query_width, value_width, output_width;  ///< features of a token
  std::size_t queries, keys;                           ///< positions
  bool use_bias, causal;
  std::size_t window;
  double dropout;
  std::size_t rotary_positions = 0;  ///< of the rotary table; 0: `queries`
  AttentionScore score = AttentionScore::projected;
  bool use_scale = false;  ///< of scores that are not `projected`

  /// Features of what keys are made of.
  [[nodiscard]] constexpr std::size_t key_width() const {
    return score == AttentionScore::projected ? value_width : key_dim;
  }
  [[nodiscard]] constexpr std::size_t queries_of_heads() const { return heads * key_dim; }
  [[nodiscard]] constexpr std::size_t keys_of_heads() const { return key_value_heads * key_dim; }
  [[nodiscard]] constexpr std::size_t values_of_heads() const {
    return key_value_heads * value_dim;
  }
  [[nodiscard]] constexpr std::size_t outputs_of_heads() const { return heads * value_dim; }

  [[nodiscard]] constexpr kernels::AttentionSize size(std::size_t samples) const {
    return {.samples = samples,
            .heads = heads,
            .key_size = key_dim,
            .value_size = value_dim,
            .queries = queries,
            .keys = keys,
            .query_stride = padded_batch(samples * queries),
            .key_stride = padded_batch(samples * keys),
            .causal = causal,
            .window = window,
            .group = heads / key_value_heads};
  }
  /// Multiply-adds for a sample: of the projections of queries, keys and values, of what heads do
  /// with each key that a query sees, and of the last projection.
  struct MultiplyAdds {
    std::uint64_t inputs, pairs, output;
  };
  [[nodiscard]] constexpr MultiplyAdds multiply_adds() const {
    std::uint64_t pairs = 0;
    for (std::size_t query = 0; query < queries; ++query) {
      const std::size_t seen = causal ? std::min(query + 1, keys) : keys;
      pairs += window == 0 ? seen : std::min(seen, window);
    }
    const std::uint64_t projects = score == AttentionScore::projected ? 1 : 0;
    return {projects * (queries * query_width * queries_of_heads() +
                        keys * value_width * (keys_of_heads() + values_of_heads())),
            pairs * (queries_of_heads() + outputs_of_heads()),
            projects * queries * outputs_of_heads() * output_width};
  }
  [[nodiscard]] constexpr Flop flop() const {
    const auto [inputs, pairs, output] = multiply_adds();
    return {2 * (inputs + pairs + output), 4 * (inputs + pairs + output),
            2 * inputs + 4 * (pairs + output)};
  }
  /// Without the gradients of weights; `backward_weights`: nor those of the input.
  [[nodiscard]] constexpr Flop frozen_flop() const {
    const auto [inputs, pairs, output] = multiply_adds();
    return {2 * (inputs + pairs + output), 2 * inputs + 4 * pairs + 2 * output,
            4 * pairs + 2 * output};
  }
  /// A place in the scratch for each array; `end` is its size.
  struct Places {
    std::size_t q, k, v, o, kept, query_mask, key_mask, flags, end;
    std::size_t packed;  ///< where those end for which 16 bits do: all but masks and known sums
  };
  /// The same in the temporary memory.
  struct TemporaryPlaces {
    std::size_t output_gradient, transposed, work, scores, end;
  };
  [[nodiscard]] constexpr Places places(std::size_t samples) const {
    const kernels::AttentionSize s = size(samples);
    Places p{};
    std::size_t next = 0;
    const auto take = [&next](std::size_t& place, std::size_t elements) {
      place = next;
      next += padded_batch(elements);
    };
    take(p.q, queries_of_heads() * s.query_stride);
    take(p.k, keys_of_heads() * s.key_stride);
    take(p.v, values_of_heads() * s.key_stride);
    take(p.o, outputs_of_heads() * s.query_stride);
    take(p.kept, kernels::attention_kept(s));
    take(p.query_mask, s.query_stride);
    take(p.key_mask, s.key_stride);
    take(p.flags, 2);
    p.end = next;
    p.packed = kernels::attention_keeps_probabilities(s) ? p.query_mask : p.kept;
    return p;
  }
  [[nodiscard]] constexpr TemporaryPlaces temporary_places(std::size_t samples) const {
    const kernels::AttentionSize s = size(samples);
    const std::size_t output_gradient = padded_batch(outputs_of_heads() * s.query_stride);
    const std::size_t transposed = padded_batch(std::max(
        {kernels::dense_scratch(std::max(queries_of_heads(), output_width), s.query_stride),
         kernels::dense_scratch(std::max(keys_of_heads(), values_of_heads()), s.key_stride)}));
    const std::size_t work = output_gradient + transposed;
    const std::size_t scores = work + padded_batch(kernels::attention_work(s));
    // Weights, their gradients, that of the scale.
    const bool is_sum = score == AttentionScore::concat || score == AttentionScore::additive;
    return {.output_gradient = 0,
            .transposed = output_gradient,
            .work = work,
            .scores = scores,
            .end = scores + (is_sum ? padded_batch(2 * key_dim + 1) : 0)};
  }
};

/// The layout of attention between two sequences, by the options.
template <class Queries, class Values>
constexpr AttentionLayout attention_layout(std::size_t heads, std::size_t key_dim,
                                           const MultiHeadAttentionOptions& options) {
  return {.heads = heads,
          .key_value_heads = options.num_key_value_heads == 0 ? heads : options.num_key_value_heads,
          .key_dim = key_dim,
          .value_dim = options.value_dim == 0 ? key_dim : options.value_dim,
          .query_width = Queries::Token::size,
          .value_width = Values::Token::size,
          .output_width = options.output_shape == 0 ? Queries::Token::size : options.output_shape,
          .queries = Queries::positions,
          .keys = Values::positions,
          .use_bias = options.use_bias,
          .causal = options.use_causal_mask,
          .window = options.sliding_window,
          .dropout = options.dropout};
}

/// The four projections' kernels and biases, under Keras's names.
template <MultiHeadAttentionOptions Options>
consteval auto attention_variables(const AttentionLayout& l) {
  const Fans query_fans{l.query_width, l.queries_of_heads()},
      key_fans{l.value_width, l.keys_of_heads()}, value_fans{l.value_width, l.values_of_heads()},
      output_fans{l.outputs_of_heads(), l.output_width};
  const auto kernel = [](const Variable& variable) {
    return variable.with(Options.kernel_regularizer, Options.kernel_constraint)
        .for_products(variable.fans.out);
  };
  const auto bias = [](const Variable& variable) {
    return variable.with(Options.bias_regularizer, Options.bias_constraint);
  };
  const Variable query = kernel({"query/kernel",
                                 {l.query_width, l.heads, l.key_dim},
                                 Options.kernel_initializer,
                                 query_fans});
  const Variable key = kernel({"key/kernel",
                               {l.value_width, l.key_value_heads, l.key_dim},
                               Options.kernel_initializer,
                               key_fans});
  const Variable value = kernel({"value/kernel",
                                 {l.value_width, l.key_value_heads, l.value_dim},
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
        bias({"key/bias", {l.key_value_heads, l.key_dim}, Options.bias_initializer, key_fans}),
        value,
        bias(
            {"value/bias", {l.key_value_heads, l.value_dim}, Options.bias_initializer, value_fans}),
        output,
        bias({"attention_output/bias", {l.output_width}, Options.bias_initializer, output_fans})};
  else
    return std::array{query, key, value, output};
}

/// The variables of Attention and AdditiveAttention, under Keras's names.
template <AttentionScore Score, bool UseScale>
consteval auto score_variables(std::size_t width) {
  const Variable scale = Score == AttentionScore::additive
                             ? Variable{"scale", {width}, glorot_uniform, {width, width}}
                             : Variable{"scale", {}, ones};
  const Variable weight{"concat_score_weight", {}, ones};
  if constexpr (Score == AttentionScore::concat && UseScale)
    return std::array{scale, weight};
  else if constexpr (Score == AttentionScore::concat)
    return std::array{weight};
  else if constexpr (UseScale)
    return std::array{scale};
  else
    return std::array<Variable, 0>{};
}

/// Narrow factors of the kernels of query and value: see LoRA.
template <class T>
struct AttentionFactors {
  std::size_t rank;
  Slices<T> weights, gradients;  ///< those of query, those of value
  T* hidden;                     ///< twice rank * stride
  T* temporary;                  ///< as LowRank needs it, for the larger of both
};

/// One attention on its arrays: x are the queries' tokens, m those of keys and values. `context`
/// and `rotary`, a table of kernels/rotary.hpp or null, must live as long.
template <class T>
class AttentionWork {
 public:
  AttentionWork(const AttentionLayout& layout, const StepContext& context, std::size_t samples,
                Slices<T> weights, std::span<T> scratch, std::span<T> temporary,
                const T* rotary = nullptr, const AttentionFactors<T>* factors = nullptr)
      : layout_(layout),
        context_(context),
        size_(layout.size(samples)),
        places_(layout.places(samples)),
        weights_(weights),
        rotary_(rotary),
        factors_(factors),
        scratch_(scratch.data()),
        output_gradient_(temporary.data() + layout.temporary_places(samples).output_gradient),
        transposed_(temporary.data() + layout.temporary_places(samples).transposed),
        work_(temporary.data() + layout.temporary_places(samples).work),
        scores_(temporary.data() + layout.temporary_places(samples).scores) {}

  /// Masks may be null, and are kept for backward. `keys`: what keys are made of, if not of m.
  void forward(const T* x, const T* m, const T* query_mask, const T* key_mask, T* y,
               const T* keys = nullptr) const {
    project(query, layout_.query_width, size_.query_stride, x, at(places_.q));
    project(key, layout_.key_width(), size_.key_stride, keys == nullptr ? m : keys, at(places_.k));
    project(value, layout_.value_width, size_.key_stride, m, at(places_.v));
    rotate(false);
    keep_mask(query_mask, size_.samples * size_.queries, places_.query_mask, 0);
    keep_mask(key_mask, size_.samples * size_.keys, places_.key_mask, 1);
    T* const o = at(places_.o);
    with_dropout([&](const kernels::AttentionDropout& dropout) {
      kernels::attention_forward<T>(size_, at(places_.q), at(places_.k), at(places_.v), masks(),
                                    dropout, o, at(places_.kept), work_, scores());
    });
    clear_padding(o, layout_.outputs_of_heads(), size_.samples * size_.queries, size_.query_stride);
    project(output, layout_.outputs_of_heads(), size_.query_stride, o, y);
  }

  /// dx and dm may be null: not wanted. They may be the same array, which then is the sum of both.
  /// No gradients: none of them is wanted. `d_keys`: of keys that were not made of m; nothing is
  /// projected then.
  void backward(const T* x, const T* m, T* dy, Slices<T> gradients, T* dx, T* dm,
                T* d_keys = nullptr) const {
    T *const q = at(places_.q), *const k = at(places_.k), *const v = at(places_.v),
             *const o = at(places_.o);
    T* const d_output = output_gradient_;
    weight_gradients(output, layout_.outputs_of_heads(), size_.query_stride, o, dy, gradients);
    input_gradient(output, layout_.outputs_of_heads(), size_.query_stride, dy, d_output, false);
    with_dropout([&](const kernels::AttentionDropout& dropout) {
      kernels::attention_backward<T>(size_, {q, k, v, o, d_output, q, k, v}, masks(), dropout,
                                     at(places_.kept), work_, scores());
    });
    score_gradients(x, q, gradients);
    rotate(true);
    clear_padding(q, layout_.queries_of_heads(), size_.samples * size_.queries, size_.query_stride);
    clear_padding(k, layout_.keys_of_heads(), size_.samples * size_.keys, size_.key_stride);
    clear_padding(v, layout_.values_of_heads(), size_.samples * size_.keys, size_.key_stride);
    weight_gradients(query, layout_.query_width, size_.query_stride, x, q, gradients);
    weight_gradients(key, layout_.value_width, size_.key_stride, m, k, gradients);
    weight_gradients(value, layout_.value_width, size_.key_stride, m, v, gradients);
    if (dx != nullptr) input_gradient(query, layout_.query_width, size_.query_stride, q, dx, false);
    factor_gradients(query, layout_.query_width, size_.query_stride, x, q, dx);
    if (dm != nullptr) {
      const bool has_keys = d_keys != nullptr;
      input_gradient(key, layout_.key_width(), size_.key_stride, k, has_keys ? d_keys : dm,
                     dm == dx && !has_keys);
      input_gradient(value, layout_.value_width, size_.key_stride, v, dm, !has_keys);
    }
    factor_gradients(value, layout_.value_width, size_.key_stride, m, v, dm);
  }

 private:
  enum Projection : std::size_t { query, key, value, output };

  [[nodiscard]] T* at(std::size_t place) const { return scratch_ + place; }

  [[nodiscard]] std::size_t units(Projection p) const {
    return p == output  ? layout_.output_width
           : p == value ? layout_.values_of_heads()
           : p == key   ? layout_.keys_of_heads()
                        : layout_.queries_of_heads();
  }
  [[nodiscard]] T* kernel(Projection p, Slices<T> slices) const {
    return slices[layout_.use_bias ? 2 * p : p].data();
  }
  [[nodiscard]] T* bias(Projection p, Slices<T> slices) const {
    return layout_.use_bias ? slices[2 * p + 1].data() : nullptr;
  }

  /// Keras's dot products are not divided by sqrt(width), as the kernel's are.
  [[nodiscard]] T query_factor() const {
    if (layout_.score != AttentionScore::dot) return T(1);
    return std::sqrt(static_cast<T>(layout_.key_dim)) * (layout_.use_scale ? weights_[0][0] : T(1));
  }
  /// Of scores that are sums.
  [[nodiscard]] kernels::AttentionScores<T> scores() const {
    const std::size_t width = layout_.key_dim;
    if (layout_.score == AttentionScore::projected || layout_.score == AttentionScore::dot)
      return {};
    const bool is_additive = layout_.score == AttentionScore::additive;
    std::fill_n(scores_, 2 * width + 1, T(0));
    if (is_additive && layout_.use_scale)
      std::copy_n(weights_[0].data(), width, scores_);
    else
      std::fill_n(scores_, width, is_additive ? T(1) : weights_[layout_.use_scale ? 1 : 0][0]);
    return {.weights = scores_,
            .scale = !is_additive && layout_.use_scale ? weights_[0][0] : T(1),
            .weight_gradients = scores_ + width,
            .scale_gradient = scores_ + 2 * width};
  }
  /// dq: of the queries as the kernel has had them.
  void score_gradients(const T* x, const T* dq, Slices<T> gradients) const {
    if (layout_.score == AttentionScore::projected || gradients.empty()) return;
    const std::size_t width = layout_.key_dim;
    const T* const of_weights = scores_ + width;
    if (layout_.score == AttentionScore::concat)
      gradients[layout_.use_scale ? 1 : 0][0] =
          std::accumulate(of_weights, of_weights + width, T(0));
    if (!layout_.use_scale) return;
    if (layout_.score == AttentionScore::additive) {
      std::copy_n(of_weights, width, gradients[0].data());
    } else if (layout_.score == AttentionScore::concat) {
      gradients[0][0] = scores_[2 * width];
    } else {
      double sum = 0;
      for (std::size_t f = 0; f < width; ++f)
        for (std::size_t row = 0; row < size_.samples * size_.queries; ++row)
          sum += static_cast<double>(x[f * size_.query_stride + row]) *
                 static_cast<double>(dq[f * size_.query_stride + row]);
      gradients[0][0] = static_cast<T>(sum * std::sqrt(static_cast<double>(width)));
    }
  }

  void project(Projection p, std::size_t inputs, std::size_t stride, const T* x, T* y) const {
    if (layout_.score != AttentionScore::projected) return hand_on(p, inputs * stride, x, y, false);
    kernels::dense_forward<T>({inputs, units(p), stride}, x, kernel(p, weights_), bias(p, weights_),
                              y);
    if (has_factors(p)) factors(p, inputs, stride).forward(x, y);
  }
  [[nodiscard]] bool has_factors(Projection p) const {
    return factors_ != nullptr && (p == query || p == value);
  }
  [[nodiscard]] LowRank<T> factors(Projection p, std::size_t inputs, std::size_t stride) const {
    return {inputs,
            units(p),
            factors_->rank,
            stride,
            factors_->weights[p].data(),
            factors_->weights[p + 1].data(),
            factors_->hidden + (p == query ? 0 : factors_->rank * stride),
            factors_->temporary};
  }
  /// Computes the factors' gradients, and adds their part to dx.
  void factor_gradients(Projection p, std::size_t inputs, std::size_t stride, const T* x,
                        const T* dy, T* dx) const {
    if (!has_factors(p)) return;
    const LowRank<T> both = factors(p, inputs, stride);
    both.gradients(x, dy, factors_->gradients[p].data(), factors_->gradients[p + 1].data());
    if (dx != nullptr) both.add_input_gradient(dx);
  }
  void weight_gradients(Projection p, std::size_t inputs, std::size_t stride, const T* x,
                        const T* dy, Slices<T> gradients) const {
    if (gradients.empty() || layout_.score != AttentionScore::projected) return;
    const kernels::DenseSize size{inputs, units(p), stride};
    kernels::dense_bias_gradient<T>(size, {dy, dy}, bias(p, gradients), transposed_);
    kernels::dense_weight_gradient<T>(size, x, transposed_, kernel(p, gradients));
  }
  void input_gradient(Projection p, std::size_t inputs, std::size_t stride, const T* dy, T* dx,
                      bool adds) const {
    if (layout_.score != AttentionScore::projected)
      return hand_on(p, inputs * stride, dy, dx, adds);
    kernels::dense_input_gradient<T>({inputs, units(p), stride}, kernel(p, weights_), dy, dx, {},
                                     adds);
  }

  /// Where nothing is projected, in both directions.
  void hand_on(Projection p, std::size_t count, const T* from, T* to, bool adds) const {
    const T factor = p == query ? query_factor() : T(1);
    for (std::size_t i = 0; i < count; ++i) to[i] = factor * from[i] + (adds ? to[i] : T(0));
  }

  /// q and k, or with `back` their gradients.
  void rotate(bool back) const {
    if (rotary_ == nullptr) return;
    kernels::Rotary<T> rotary{.heads = layout_.heads,
                              .features = layout_.key_dim,
                              .samples = size_.samples,
                              .positions = layout_.queries,
                              .stride = size_.query_stride,
                              .table = rotary_,
                              .table_positions = layout_.rotary_positions,
                              .back = back,
                              .x = at(places_.q)};
    kernels::dispatch(rotary);
    rotary.heads = layout_.key_value_heads;
    rotary.x = at(places_.k);
    kernels::dispatch(rotary);
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
  const T* rotary_;
  const AttentionFactors<T>* factors_;
  T* scratch_;
  T *output_gradient_, *transposed_, *work_, *scores_;  // temporary
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
/// With `rope_theta`, feature f and feature f + KeyDim / 2 of each head of q and k turn by
/// position * rope_theta^(-2 f / KeyDim). Su et al., "RoFormer", arXiv 2104.09864, 2021, in the
/// pairs of Llama. `sliding_window` limits the work on long sequences to that window, but not where
/// there is dropout.
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
  static_assert(Options.num_key_value_heads == 0 || Heads % Options.num_key_value_heads == 0,
                "lockstep: the heads of keys and values (num_key_value_heads) must divide those of "
                "queries: each serves as many of them");
  static_assert(Options.sliding_window == 0 || Options.use_causal_mask,
                "lockstep: sliding_window needs .use_causal_mask = true: it is the last positions "
                "of those that a causal attention sees");
  static_assert(Options.rope_theta == 0 || (Options.rope_theta > 1 && KeyDim % 2 == 0),
                "lockstep: rope_theta turns pairs of features: it needs heads of an even number of "
                "features, and is above 1 (Llama: 10000)");

  static constexpr std::string_view name =
      Options.num_key_value_heads == 0 ? "multi_head_attention" : "grouped_query_attention";
  static constexpr std::string_view class_name =
      Options.num_key_value_heads == 0 ? "" : "GroupQueryAttention";
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_mask = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatTokens<Position, In>,
                  "lockstep: MultiHeadAttention needs a sequence of flat tokens, Sequence<T, "
                  "width>: put ls::Embedding or ls::ToSequence before it");
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
  static constexpr Flop frozen_flop = layout<In>().frozen_flop();

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layout<In>().places(samples).end;
  }
  /// The first elements of scratch, which may have 16 bits where a policy says so.
  template <class In>
  static constexpr std::size_t packed_scratch(std::size_t samples) {
    return layout<In>().places(samples).packed;
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
  template <class In, class T>
  static void backward_input(const BackwardPass<T>& pass) {
    backward<In, T>(pass);
  }

 private:
  template <class In, class T, class Pass>
  static detail::AttentionWork<T> work(const Pass& pass) {
    return {layout<In>(),         pass.context, pass.x.samples() / In::positions,
            pass.weights,         pass.scratch, pass.temporary,
            rotary_table<In, T>()};
  }

 public:
  /// Made once; null without rotary positions.
  template <class In, class T>
  static const T* rotary_table() {
    if constexpr (Options.rope_theta == 0) {
      return nullptr;
    } else {
      static const std::vector<T> table = [] {
        std::vector<T> all(kernels::rotary_table_size(KeyDim, In::positions));
        kernels::make_rotary_table(Options.rope_theta, KeyDim, In::positions, all.data());
        return all;
      }();
      return table.data();
    }
  }
};

namespace detail {

constexpr MultiHeadAttentionOptions with_key_value_heads(MultiHeadAttentionOptions options,
                                                         std::size_t heads) {
  if (heads == 0) throw "lockstep: GroupQueryAttention needs at least one head of keys and values";
  options.num_key_value_heads = heads;
  return options;
}

}  // namespace detail

/// MultiHeadAttention with fewer heads of keys and values than of queries, Keras's
/// GroupQueryAttention(HeadDim, QueryHeads, KeyValueHeads): the first
/// QueryHeads / KeyValueHeads heads of queries share the first of keys and values, and so on.
/// Ainslie et al., "GQA", arXiv 2305.13245, 2023.
/// Use: `GroupQueryAttention<8, 4, 2>`: Sequence<10, 32> -> Sequence<10, 32>; query/kernel (32, 4,
/// 8), query/bias (4, 8), key/kernel (32, 2, 8), key/bias (2, 8), value/kernel (32, 2, 8),
/// value/bias (2, 8), attention_output/kernel (4, 8, 32), attention_output/bias (32).
template <std::size_t HeadDim, std::size_t QueryHeads, std::size_t KeyValueHeads,
          MultiHeadAttentionOptions Options = MultiHeadAttentionOptions{}>
using GroupQueryAttention =
    MultiHeadAttention<QueryHeads, HeadDim, detail::with_key_value_heads(Options, KeyValueHeads)>;

}}  // namespace lockstep
