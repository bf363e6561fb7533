// Decoding: what a network makes of a text's next tokens, with what it has kept of those before.
//
// (One file of more than 800 lines: a kind of layer is a page, and all of them are one table.)
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/decoding.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/kernels/recurrence.hpp"
#include "lockstep/kernels/rotary.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/recurrent.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/tied_head.hpp"

// A pass computes the rows of some texts' next tokens: all of a prompt, or one of each text. Rows
// lie as in training, [feature][stride]; a single row is not padded, so that its products read each
// weight once, in order. A layer that knows nothing of positions is run as it is.

namespace lockstep { inline namespace LOCKSTEP_ABI {

template <class... Layers>
  requires each_layer_has_its_angle_brackets<Layers...>
struct Recompute;

/// Some tokens of one text, one after the other.
template <class T>
struct DecodedText {
  std::size_t rows = 0;   ///< how many
  std::size_t first = 0;  ///< the position of the first one in its text
  T* cache = nullptr;     ///< what all layers keep of the text; of a new text where `first` is 0
};

/// The arguments of a layer's decode.
template <class T>
struct DecodePass {
  Slices<T> weights;
  Slices<T> state;
  std::span<const DecodedText<T>> texts;
  std::size_t cache = 0;  ///< where the layer's part of each text's cache begins
  /// Rows of the first text, then those of the next. One row has a stride of 1.
  TensorView<const T> x;
  TensorView<T> y;
  T* memory = nullptr;  ///< decode_memory<In>(rows) elements
  /// For a container: y has only the last row of each text.
  bool last_rows = false;
};

/// A SequenceLayer that can be given a text in pieces, for Generator: position t of its output is
/// made of the positions up to t of its input. (A layer that is no SequenceLayer needs nothing.)
///
///  1. `L::template decode<In, T>(const DecodePass<T>&)` writes the rows of y, from those of x and
///     what it has kept of the text in its part of the cache. It does not allocate.
///  2. `L::template decode_cache<In>`: elements that it keeps of a text.
///  3. `L::template decode_memory<In>(std::size_t rows)`: of those that it needs while it runs.
/// Optional:
///  4. `L::template decode_positions<In>`: no text may be longer. Default: any length.
template <class L, class In, class T>
concept DecodingLayer = SequenceLayer<L> && requires(const DecodePass<T>& pass) {
  L::template decode<In, T>(pass);
  { L::template decode_cache<In> } -> std::convertible_to<std::size_t>;
  { L::template decode_memory<In>(std::size_t{}) } -> std::convertible_to<std::size_t>;
};

namespace detail {

inline constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

/// The distance between the features of an array of `rows` rows.
[[nodiscard]] constexpr std::size_t decode_stride(std::size_t rows) {
  return rows == 1 ? 1 : padded_batch(rows);
}
/// Elements of such an array, rounded up so that what follows stays aligned.
[[nodiscard]] constexpr std::size_t decode_elements(std::size_t features, std::size_t rows) {
  return padded_batch(features * decode_stride(rows));
}
template <class T>
[[nodiscard]] TensorView<T> decode_view(T* data, std::size_t features, std::size_t rows) {
  return {data, rows, features, decode_stride(rows)};
}

/// y = x kernel + bias, or without the bias where it is null.
template <class T>
void decode_product(const TensorView<const T>& x, const T* kernel, const T* bias,
                    const TensorView<T>& y) {
  if (x.samples() == 1)
    kernels::few_forward<T>({1, x.features(), y.features(), x.data(), kernel, bias, y.data(), {}});
  else
    kernels::dense_forward<T>({x.features(), y.features(), x.stride()}, x.data(), kernel, bias,
                              y.data());
}

/// What a layer does in decoding. Specialised for each kind of layer:
///  can_decode, mixes (a row depends on earlier ones), cuts (it heeds last_rows), ids (that it
///  takes), masks_zero (id 0 is padding), positions (the longest text), cache (elements for a
///  text), memory(rows) and run(pass).
template <class L, class In, class T>
struct Decoding {
  static constexpr bool can_decode = false;
};

/// The defaults.
struct DecodingOfRows {
  static constexpr bool can_decode = true;
  static constexpr bool mixes = false;
  static constexpr bool cuts = false;
  static constexpr bool masks_zero = false;
  static constexpr std::size_t ids = any_length;
  static constexpr std::size_t positions = any_length;
  static constexpr std::size_t cache = 0;
};

/// A layer that is applied to each token.
template <class L, class In, class T>
  requires(!SequenceLayer<L> && is_sequence<In>)
struct Decoding<L, In, T> : DecodingOfRows {
  using Token = TokenOf<In>;
  using Out = typename L::template Output<Token>;
  static constexpr bool computes_few =
      FewSamplesLayer<L, Token, T> && state_variables_of<L, Token>().empty();

  static constexpr std::size_t memory(std::size_t rows) {
    const bool is_few = rows == 1 && computes_few;
    std::size_t elements =
        rows == 1 && !is_few ? padded_batch(1) * (Token::size + Out::size) : std::size_t{0};
    elements += scratch(is_few ? 1 : padded_batch(rows));
    if constexpr (requires { L::template temporary<Token>(rows); })
      elements += padded_batch(L::template temporary<Token>(padded_batch(rows)));
    return elements;
  }
  static void run(const DecodePass<T>& pass) {
    if constexpr (computes_few)
      if (pass.x.samples() == 1)
        return L::template forward_few<Token, T>(
            {1, pass.weights, pass.x.data(), pass.y.data(), pass.memory});
    if (pass.x.samples() > 1) return forward(pass, pass.x, pass.y, pass.memory);
    constexpr std::size_t stride = padded_batch(1);
    const TensorView<T> x(pass.memory, 1, Token::size, stride),
        y(pass.memory + stride * Token::size, 1, Out::size, stride);
    std::fill_n(x.data(), stride * Token::size, T(0));
    for (std::size_t f = 0; f < Token::size; ++f) x(0, f) = pass.x(0, f);
    forward(pass, x, y, y.data() + stride * Out::size);
    for (std::size_t f = 0; f < Out::size; ++f) pass.y(0, f) = y(0, f);
  }

 private:
  static constexpr std::size_t scratch(std::size_t stride) {
    if constexpr (requires { L::template scratch<Token>(stride); })
      return padded_batch(L::template scratch<Token>(stride));
    else
      return 0;
  }
  static void forward(const DecodePass<T>& pass, TensorView<const T> x, TensorView<T> y,
                      T* memory) {
    const StepContext context;
    const std::size_t kept = scratch(x.stride());
    std::size_t temporary = 0;
    if constexpr (requires { L::template temporary<Token>(kept); })
      temporary = L::template temporary<Token>(x.stride());
    forward_layer<L, Token, T>({.context = context,
                                .weights = pass.weights,
                                .state = pass.state,
                                .x = x,
                                .y = y,
                                .scratch = {memory, kept},
                                .temporary = {memory + kept, temporary}});
  }
};

/// A user's own.
template <class L, class In, class T>
  requires DecodingLayer<L, In, T>
struct Decoding<L, In, T> : DecodingOfRows {
  static constexpr bool mixes = true;
  static constexpr std::size_t positions = [] {
    if constexpr (requires { L::template decode_positions<In>; })
      return L::template decode_positions<In>;
    else
      return any_length;
  }();
  static constexpr std::size_t cache = padded_batch(L::template decode_cache<In>);
  static constexpr std::size_t memory(std::size_t rows) {
    return L::template decode_memory<In>(rows);
  }
  static void run(const DecodePass<T>& pass) { L::template decode<In, T>(pass); }
};

template <Probability Rate, class In, class T>
struct Decoding<SpatialDropout1D<Rate>, In, T> : DecodingOfRows {
  static constexpr std::size_t memory(std::size_t) { return 0; }
  static void run(const DecodePass<T>& pass) { copy_elements<T>(pass.x, pass.y); }
};

/// x has the ids.
template <std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options, class In, class T>
struct Decoding<Embedding<Vocabulary, Width, Options>, In, T> : DecodingOfRows {
  static constexpr bool masks_zero = Options.mask_zero;
  static constexpr std::size_t ids = Vocabulary;
  static constexpr std::size_t memory(std::size_t) { return 0; }
  static void run(const DecodePass<T>& pass) {
    kernels::gather_rows<T>({pass.weights[0].data(), Width, pass.x.data(), pass.x.samples(),
                             pass.y.stride(), pass.y.data(), Vocabulary});
  }
};

template <std::size_t MaxPositions, PositionEmbeddingOptions Options, class In, class T>
struct Decoding<PositionEmbedding<MaxPositions, Options>, In, T> : DecodingOfRows {
  static constexpr std::size_t positions = In::positions;
  static constexpr std::size_t memory(std::size_t) { return 0; }
  static void run(const DecodePass<T>& pass) {
    constexpr std::size_t width = In::Token::size;
    std::size_t row = 0;
    for (const DecodedText<T>& text : pass.texts)
      for (std::size_t i = 0; i < text.rows; ++i, ++row) {
        const T* const offsets = pass.weights[0].data() + (text.first + i) * width;
        for (std::size_t f = 0; f < width; ++f) pass.y(row, f) = pass.x(row, f) + offsets[f];
      }
  }
};

/// Attention over a cache of keys and values, [head][feature][position]; of a sliding window the
/// latest positions, each in the place of one that is not seen any more.
template <class T>
class CachedAttentionWork {
 public:
  struct Options {
    double theta;          ///< 0: no rotary positions
    const T* rotary;       ///< of layout.rotary_positions
    std::size_t capacity;  ///< positions that the cache keeps
  };
  /// `layout`: with the positions of the model's sequence.
  static constexpr std::size_t stride(std::size_t capacity) { return padded_batch(capacity); }
  static constexpr std::size_t cache(const AttentionLayout& l, std::size_t capacity) {
    return (l.keys_of_heads() + l.values_of_heads()) * stride(capacity);
  }
  static constexpr std::size_t memory(AttentionLayout l, std::size_t capacity, std::size_t rows) {
    const std::size_t features =
        l.queries_of_heads() + l.keys_of_heads() + l.values_of_heads() + l.outputs_of_heads();
    const std::size_t by_row = 4 * batch_multiple + features * (decode_stride(rows) + 1) +
                               4 * batch_multiple + stride(capacity);
    if (rows == 1) return padded_batch(by_row);
    l.queries = l.keys = rows;
    return std::max(padded_batch(by_row), l.places(1).end + l.temporary_places(1).end);
  }

  CachedAttentionWork(const AttentionLayout& layout, const Options& options,
                      const DecodePass<T>& pass)
      : layout_(layout), options_(options), pass_(pass) {}

  void run() const {
    if (pass_.texts.size() == 1 && pass_.texts[0].first == 0 && pass_.texts[0].rows > 1)
      all_at_once();
    else
      row_by_row();
  }

 private:
  enum Projection : std::size_t { query, key, value, output };

  /// A prompt from its beginning, as in training.
  void all_at_once() const {
    const DecodedText<T>& text = pass_.texts[0];
    AttentionLayout l = layout_;
    l.queries = l.keys = text.rows;
    const auto places = l.places(1);
    const StepContext context;
    T* const scratch = pass_.memory;
    AttentionWork<T>(l, context, 1, pass_.weights, {scratch, places.end},
                     {scratch + places.end, l.temporary_places(1).end}, options_.rotary)
        .forward(pass_.x.data(), pass_.x.data(), nullptr, nullptr, pass_.y.data());
    pass_.y.clear_padding();
    const std::size_t from = text.rows - std::min(text.rows, options_.capacity);
    const auto keep = [&](const T* rows, std::size_t features, T* cache) {
      for (std::size_t f = 0; f < features; ++f)
        for (std::size_t t = from; t < text.rows; ++t)
          cache[f * stride(options_.capacity) + t % options_.capacity] =
              rows[f * pass_.x.stride() + t];
    };
    keep(scratch + places.k, layout_.keys_of_heads(), keys(text));
    keep(scratch + places.v, layout_.values_of_heads(), values(text));
  }

  void row_by_row() const {
    const AttentionLayout& l = layout_;
    const std::size_t rows = pass_.x.samples();
    T* next = pass_.memory;
    const auto take = [&next](std::size_t elements) {
      return std::exchange(next, next + padded_batch(elements));
    };
    const auto array = [&](std::size_t features) {
      return decode_view(take(features * decode_stride(rows)), features, rows);
    };
    const TensorView<T> q = array(l.queries_of_heads()), k = array(l.keys_of_heads()),
                        v = array(l.values_of_heads()), o = array(l.outputs_of_heads());
    T *const q_of_row = take(q.features()), *const k_of_row = take(k.features()),
             *const o_of_row = take(o.features()), *const scores = next;
    project(query, pass_.x, q);
    project(key, pass_.x, k);
    project(value, pass_.x, v);
    if (rows > 1) std::fill_n(o.data(), o.features() * o.stride(), T(0));
    std::size_t row = 0;
    for (const DecodedText<T>& text : pass_.texts)
      for (std::size_t i = 0; i < text.rows; ++i, ++row) {
        const std::size_t position = text.first + i, place = position % options_.capacity;
        const std::size_t step = stride(options_.capacity);
        for (std::size_t f = 0; f < q.features(); ++f) q_of_row[f] = q(row, f);
        for (std::size_t f = 0; f < k.features(); ++f) k_of_row[f] = k(row, f);
        if (options_.theta > 0) {
          kernels::rotate_position(options_.theta, l.heads, l.key_dim, position, options_.rotary,
                                   l.rotary_positions, q_of_row);
          kernels::rotate_position(options_.theta, l.key_value_heads, l.key_dim, position,
                                   options_.rotary, l.rotary_positions, k_of_row);
        }
        T *const to_keys = keys(text) + place, *const to_values = values(text) + place;
        for (std::size_t f = 0; f < k.features(); ++f) to_keys[f * step] = k_of_row[f];
        for (std::size_t f = 0; f < v.features(); ++f) to_values[f * step] = v(row, f);
        kernels::dispatch(
            kernels::CachedAttention<T>{.heads = l.heads,
                                        .group = l.heads / l.key_value_heads,
                                        .key_size = l.key_dim,
                                        .value_size = l.value_dim,
                                        .positions = std::min(position + 1, options_.capacity),
                                        .stride = step,
                                        .q = q_of_row,
                                        .keys = keys(text),
                                        .values = values(text),
                                        .scores = scores,
                                        .o = o_of_row});
        for (std::size_t f = 0; f < o.features(); ++f) o(row, f) = o_of_row[f];
      }
    project(output, o, pass_.y);
  }

  [[nodiscard]] T* keys(const DecodedText<T>& text) const { return text.cache + pass_.cache; }
  [[nodiscard]] T* values(const DecodedText<T>& text) const {
    return keys(text) + layout_.keys_of_heads() * stride(options_.capacity);
  }
  void project(Projection p, const TensorView<const T>& x, const TensorView<T>& y) const {
    const T* const kernel = pass_.weights[layout_.use_bias ? 2 * p : p].data();
    decode_product<T>(x, kernel, layout_.use_bias ? pass_.weights[2 * p + 1].data() : nullptr, y);
  }

  AttentionLayout layout_;
  Options options_;
  const DecodePass<T>& pass_;
};

LOCKSTEP_EXTERN(class CachedAttentionWork<float>);
LOCKSTEP_EXTERN_DOUBLE(class CachedAttentionWork<double>);

template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Settings, class In,
          class T>
  requires(Settings.use_causal_mask && is_sequence<In>)
struct Decoding<MultiHeadAttention<Heads, KeyDim, Settings>, In, T> : DecodingOfRows {
  static constexpr bool mixes = true;
  static constexpr bool has_window = Settings.sliding_window > 0;
  static constexpr std::size_t positions = has_window ? any_length : In::positions;
  static constexpr std::size_t capacity = has_window ? Settings.sliding_window : In::positions;
  static constexpr AttentionLayout layout = [] {
    AttentionLayout l = attention_layout<In, In>(Heads, KeyDim, Settings);
    l.rotary_positions = In::positions;
    return l;
  }();
  static constexpr std::size_t cache = CachedAttentionWork<T>::cache(layout, capacity);
  static constexpr std::size_t memory(std::size_t rows) {
    return CachedAttentionWork<T>::memory(layout, capacity, rows);
  }
  static void run(const DecodePass<T>& pass) {
    using Layer = MultiHeadAttention<Heads, KeyDim, Settings>;
    CachedAttentionWork<T>(
        layout, {Settings.rope_theta, Layer::template rotary_table<In, T>(), capacity}, pass)
        .run();
  }
};

/// LSTM, GRU, SimpleRNN: the cache has the state, [unit], and that of an LSTM's cells.
template <class L, class In, class T>
  requires(requires { typename L::RecurrentCell; } && is_sequence<In> && L::returns_sequences &&
           !L::goes_backwards)
struct Decoding<L, In, T> : DecodingOfRows {
  static constexpr bool mixes = true;
  static constexpr std::size_t units = L::units;
  static constexpr RecurrentLayout layout = L::template layout<In>();
  static constexpr std::size_t cache = padded_batch((layout.has_inner ? 2 : 1) * units);

  static constexpr kernels::RecurrenceSize size(std::size_t rows) {
    return {.inputs = layout.inputs,
            .units = units,
            .gates = layout.gates,
            .samples = 1,
            .steps = rows};
  }
  static constexpr std::size_t memory(std::size_t rows) {
    const kernels::RecurrenceSize s = size(rows);
    return (layout.inputs + layout.gates * units) * s.columns() + 2 * units * s.state_columns();
  }
  static void run(const DecodePass<T>& pass) {
    std::size_t row = 0;
    for (const DecodedText<T>& text : pass.texts) {
      run(pass, text, row);
      row += text.rows;
    }
    if (pass.y.samples() > 1) pass.y.clear_padding();
  }

 private:
  static void run(const DecodePass<T>& pass, const DecodedText<T>& text, std::size_t first_row) {
    const kernels::RecurrenceSize s = size(text.rows);
    const std::size_t batch = s.batch();
    T* const inputs = pass.memory;
    T* const gates = inputs + s.inputs * s.columns();
    T* const states = gates + s.gates * units * s.columns();
    T* const inner = states + units * s.state_columns();
    T* const kept = text.cache + pass.cache;
    std::fill_n(inputs, s.inputs * s.columns(), T(0));
    for (std::size_t t = 0; t < text.rows; ++t)
      for (std::size_t f = 0; f < s.inputs; ++f)
        inputs[(t * s.inputs + f) * batch] = pass.x(first_row + t, f);
    std::fill_n(states, units * batch, T(0));
    std::fill_n(inner, units * batch, T(0));
    for (std::size_t unit = 0; unit < units && text.first > 0; ++unit) {
      states[unit * batch] = kept[unit];
      if (layout.has_inner) inner[unit * batch] = kept[units + unit];
    }
    const T* const bias = layout.use_bias ? pass.weights[2].data() : nullptr;
    kernels::Recurrence<T> arrays{};
    arrays.size = s;
    arrays.continues = text.first > 0;
    arrays.inputs = inputs;
    arrays.kernel = pass.weights[0].data();
    arrays.recurrent_kernel = pass.weights[1].data();
    arrays.bias = bias;
    if (layout.has_recurrent_bias && layout.use_bias)
      arrays.recurrent_bias = bias + layout.gates * units;
    arrays.gates = gates;
    arrays.states = arrays.dropped = states;
    arrays.inner = inner;
    L::RecurrentCell::template forward<T>(arrays);
    for (std::size_t unit = 0; unit < units; ++unit) {
      for (std::size_t t = 0; t < text.rows; ++t)
        pass.y(first_row + t, unit) = arrays.after(states, t)[unit * batch];
      kept[unit] = arrays.after(states, text.rows - 1)[unit * batch];
      if (layout.has_inner) kept[units + unit] = arrays.after(inner, text.rows - 1)[unit * batch];
    }
  }
};

// Containers.

/// A layer of a container, as data.
template <class T>
struct DecodeStep {
  LayerPlace place;
  std::size_t outputs = 0;  ///< features of a row
  std::size_t cache = 0, cache_begin = 0;
  std::size_t (*memory)(std::size_t rows) = nullptr;
  void (*run)(const DecodePass<T>& pass) = nullptr;
  bool mixes = false, cuts = false, masks_zero = false;
  std::size_t ids = any_length;
  std::size_t positions = any_length;
};

template <class T, class L, class In>
constexpr DecodeStep<T> decode_step(const LayerPlace& place) {
  using Work = Decoding<L, In, T>;
  return {.place = place,
          .outputs = TokenOf<typename OutputShape<L, In>::Type>::size,
          .cache = Work::cache,
          .memory = [](std::size_t rows) { return padded_batch(Work::memory(rows)); },
          .run = Work::run,
          .mixes = Work::mixes,
          .cuts = Work::cuts,
          .masks_zero = Work::masks_zero,
          .ids = Work::ids,
          .positions = Work::positions};
}

/// The steps of a container's layers, one after the other.
template <class T>
using DecodeSteps = std::span<const DecodeStep<T>>;

/// Elements of the largest output.
template <class T>
constexpr std::size_t decode_between(DecodeSteps<T> steps, std::size_t rows) {
  std::size_t largest = 0;
  for (const DecodeStep<T>& step : steps)
    largest = std::max(largest, decode_elements(step.outputs, rows));
  return largest;
}
/// (The number of rows may become smaller, down to that of the texts.)
template <class T>
constexpr std::size_t decode_memory(DecodeSteps<T> steps, std::size_t rows) {
  std::size_t largest = 0;
  for (const DecodeStep<T>& step : steps)
    largest = std::max({largest, step.memory(rows), step.memory(1)});
  return 2 * decode_between(steps, rows) + largest;
}

/// to = the last row of each text.
template <class T>
void take_last_rows(std::span<const DecodedText<T>> texts, const TensorView<const T>& from,
                    const TensorView<T>& to) {
  if (to.samples() > 1) std::fill_n(to.data(), to.features() * to.stride(), T(0));
  std::size_t end = 0, row = 0;
  for (const DecodedText<T>& text : texts) {
    end += text.rows;
    for (std::size_t f = 0; f < from.features(); ++f) to(row, f) = from(end - 1, f);
    ++row;
  }
}

/// Runs layers one after the other. What follows the last one that mixes rows is computed for the
/// last rows alone, where no others are wanted.
template <class T>
void run_decoding(DecodeSteps<T> steps, const DecodePass<T>& pass) {
  const std::size_t rows = pass.x.samples();
  const std::size_t between = decode_between(steps, rows);
  T* const buffers[2] = {pass.memory, pass.memory + between};
  T* const memory = pass.memory + 2 * between;
  std::size_t mixing = 0;  // layers up to the last one that mixes
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].mixes) mixing = i + 1;
  std::array<DecodedText<T>, 64> lasts;
  std::span<const DecodedText<T>> texts = pass.texts;
  TensorView<const T> x = pass.x;
  std::size_t turn = 0;
  const auto cut = [&](const TensorView<T>& to) {
    take_last_rows(texts, x, to);
    for (std::size_t i = 0; i < texts.size(); ++i)
      lasts[i] = {1, texts[i].first + texts[i].rows - 1, texts[i].cache};
    x = to;
    texts = std::span<const DecodedText<T>>(lasts).first(texts.size());
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DecodeStep<T>& step = steps[i];
    const bool is_last = i + 1 == steps.size();
    if (pass.last_rows && i == mixing && x.samples() > texts.size())
      cut(decode_view(buffers[turn ^= 1], x.features(), texts.size()));
    const bool cuts = pass.last_rows && i + 1 == mixing && step.cuts;
    const std::size_t outputs = cuts ? texts.size() : x.samples();
    const bool to_y = is_last && (!pass.last_rows || outputs == texts.size());
    const TensorView<T> y = to_y ? pass.y : decode_view(buffers[turn ^= 1], step.outputs, outputs);
    const LayerPlace& p = step.place;
    step.run({.weights = pass.weights.subspan(p.first_variable, p.variables),
              .state = pass.state.subspan(p.first_state_variable, p.state_variables),
              .texts = texts,
              .cache = pass.cache + step.cache_begin,
              .x = x,
              .y = y,
              .memory = memory,
              .last_rows = cuts});
    if (cuts) {
      for (std::size_t t = 0; t < texts.size(); ++t)
        lasts[t] = {1, texts[t].first + texts[t].rows - 1, texts[t].cache};
      texts = std::span<const DecodedText<T>>(lasts).first(texts.size());
    }
    x = y;
    if (is_last && !to_y) take_last_rows(texts, x, pass.y);
  }
}

LOCKSTEP_EXTERN(void run_decoding<float>(DecodeSteps<float>, const DecodePass<float>&));
LOCKSTEP_EXTERN_DOUBLE(void run_decoding<double>(DecodeSteps<double>, const DecodePass<double>&));

template <class In, class T, class... At>
constexpr bool can_decode_all(LayerList<At...>) {
  return (Decoding<typename At::Work, typename At::Input, T>::can_decode && ...);
}

/// What all containers say of their layers: `Table::steps`, a constexpr array of DecodeStep.
template <class Table>
struct DecodingOfSteps : DecodingOfRows {
  static constexpr bool mixes =
      std::ranges::any_of(Table::steps, [](const auto& step) { return step.mixes; });
  static constexpr bool masks_zero =
      std::ranges::any_of(Table::steps, [](const auto& step) { return step.masks_zero; });
  static constexpr std::size_t ids = [] {
    std::size_t least = any_length;
    for (const auto& step : Table::steps) least = std::min(least, step.ids);
    return least;
  }();
  static constexpr std::size_t positions = [] {
    std::size_t least = any_length;
    for (const auto& step : Table::steps) least = std::min(least, step.positions);
    return least;
  }();
  static constexpr std::size_t cache = [] {
    std::size_t all = 0;
    for (const auto& step : Table::steps) all += step.cache;
    return all;
  }();
};

template <class T, class Table>
struct DecodingInARow : DecodingOfSteps<Table> {
  static constexpr bool cuts = true;
  static std::size_t memory(std::size_t rows) { return decode_memory<T>(Table::steps, rows); }
  static void run(const DecodePass<T>& pass) { run_decoding<T>(Table::steps, pass); }
};

template <std::size_t Count, class T>
constexpr std::array<DecodeStep<T>, Count> with_cache_places(
    std::array<DecodeStep<T>, Count> steps) {
  std::size_t next = 0;
  for (DecodeStep<T>& step : steps) {
    step.cache_begin = next;
    next += step.cache;
  }
  return steps;
}

template <class In, class T, class... Layers>
struct SequentialSteps {
  using Chain = ChainOf<In, Layers...>;
  static constexpr auto places = layer_places<Chain::Steps::size>(typename Chain::List{});
  static constexpr auto steps = []<class... At, std::size_t... I>(LayerList<At...>,
                                                                  std::index_sequence<I...>) {
    return with_cache_places(std::array<DecodeStep<T>, sizeof...(At)>{
        decode_step<T, typename At::Work, typename At::Input>(places[I])...});
  }(typename Chain::Steps{}, std::make_index_sequence<Chain::Steps::size>{});
};
template <class... Layers, class In, class T>
  requires(can_decode_all<In, T>(typename ChainOf<In, Layers...>::Steps{}))
struct Decoding<Sequential<Layers...>, In, T>
    : DecodingInARow<T, SequentialSteps<In, T, Layers...>> {};

template <std::size_t Times, class L, class In, class T>
struct RepeatSteps {
  static constexpr auto steps = [] {
    std::array<DecodeStep<T>, Times> all{};
    for (std::size_t i = 0; i < Times; ++i)
      all[i] = decode_step<T, L, In>(RepeatTables<Times, L>::template places<In>[i]);
    return with_cache_places(all);
  }();
};
template <std::size_t Times, class L, class In, class T>
  requires(Decoding<L, In, T>::can_decode)
struct Decoding<Repeat<Times, L>, In, T> : DecodingInARow<T, RepeatSteps<Times, L, In, T>> {};

/// (A branch that hands its input on has no `run`.)
template <class In, class T, class... Branches>
struct BranchSteps {
  static constexpr std::size_t count = sizeof...(Branches);
  template <class B>
  static constexpr DecodeStep<T> step_of() {
    using At = LayerAt<0, B, In>;
    if constexpr (At::aliases)
      return {.place = At::place(), .outputs = TokenOf<In>::size};
    else
      return decode_step<T, B, In>(At::place());
  }
  static constexpr std::array<DecodeStep<T>, count> steps = [] {
    std::array<DecodeStep<T>, count> all{step_of<Branches>()...};
    std::size_t variables = 0, states = 0;
    for (DecodeStep<T>& step : all) {
      step.place.first_variable = std::exchange(variables, variables + step.place.variables);
      step.place.first_state_variable = std::exchange(states, states + step.place.state_variables);
    }
    return with_cache_places(all);
  }();
};

/// Branches whose outputs Merge makes one of.
template <class Merge, class In, class T, class... Branches>
struct DecodingBranches : DecodingOfSteps<BranchSteps<In, T, Branches...>> {
  static constexpr std::size_t count = sizeof...(Branches);
  static constexpr const auto& steps = BranchSteps<In, T, Branches...>::steps;
  using Token =
      TokenOf<typename Merge::template Rule<typename OutputShape<Branches, In>::Type...>::Type>;
  static std::size_t memory(std::size_t rows) {
    std::size_t outputs = 0, largest = 0;
    for (const DecodeStep<T>& step : steps)
      if (step.run != nullptr) {
        outputs += decode_elements(step.outputs, rows);
        largest = std::max(largest, step.memory(rows));
      }
    return outputs + largest;
  }
  static void run(const DecodePass<T>& pass) {
    const std::size_t rows = pass.x.samples();
    std::array<TensorView<const T>, count> outputs;
    T* next = pass.memory;
    T* memory = pass.memory;
    for (const DecodeStep<T>& step : steps)
      if (step.run != nullptr) memory += decode_elements(step.outputs, rows);
    for (std::size_t b = 0; b < count; ++b) {
      const DecodeStep<T>& step = steps[b];
      if (step.run == nullptr) {
        outputs[b] = pass.x;
        continue;
      }
      const TensorView<T> y = decode_view(next, step.outputs, rows);
      next += decode_elements(step.outputs, rows);
      const LayerPlace& p = step.place;
      step.run({.weights = pass.weights.subspan(p.first_variable, p.variables),
                .state = pass.state.subspan(p.first_state_variable, p.state_variables),
                .texts = pass.texts,
                .cache = pass.cache + step.cache_begin,
                .x = pass.x,
                .y = y,
                .memory = memory});
      outputs[b] = y;
    }
    Merge::template forward<T>(
        outputs, Token::size / (Token::rank == 0 ? 1 : Token::extents.back()), pass.y);
  }
};

template <class B, class In, class T>
inline constexpr bool can_decode_branch = [] {
  if constexpr (LayerAt<0, B, In>::aliases)
    return true;
  else
    return Decoding<B, In, T>::can_decode;
}();

template <class Merge, class... Branches, class In, class T>
  requires(is_sequence<In> && (can_decode_branch<Branches, In, T> && ...))
struct Decoding<Parallel<Merge, Branches...>, In, T> : DecodingBranches<Merge, In, T, Branches...> {
};

template <class... Layers, class In, class T>
  requires(is_sequence<In> && can_decode_branch<Sequential<Layers...>, In, T>)
struct Decoding<Residual<Layers...>, In, T>
    : DecodingBranches<Add, In, T, Identity, Sequential<Layers...>> {};
template <class Branch, class Shortcut, class In, class T>
  requires(is_sequence<In> && is_sequential<Branch> && is_sequential<Shortcut> &&
           can_decode_branch<Branch, In, T> && can_decode_branch<Shortcut, In, T>)
struct Decoding<Residual<Branch, Shortcut>, In, T>
    : DecodingBranches<Add, In, T, Branch, Shortcut> {};

template <class Function, class... Layers, class In, class T>
  requires(Decoding<Residual<Layers...>, In, T>::can_decode)
struct Decoding<ActivatedResidual<Function, Layers...>, In, T>
    : Decoding<Residual<Layers...>, In, T> {
  static void run(const DecodePass<T>& pass) {
    Decoding<Residual<Layers...>, In, T>::run(pass);
    activate<Function, T>(elements_of(pass.y), pass.y.data(), pass.y.data(), nullptr);
  }
};

template <class... Layers, class In, class T>
  requires(Decoding<typename Recompute<Layers...>::Body, In, T>::can_decode)
struct Decoding<Recompute<Layers...>, In, T>
    : Decoding<typename Recompute<Layers...>::Body, In, T> {};

template <class L, class In, class T>
  requires(Decoding<L, In, T>::can_decode)
struct Decoding<Float32<L>, In, T> : Decoding<L, In, T> {};

/// The variables of a frozen layer are its state.
template <class L, class In, class T>
  requires(SequenceLayer<L> && Decoding<L, In, T>::can_decode)
struct Decoding<Frozen<L>, In, T> : Decoding<L, In, T> {
  static void run(const DecodePass<T>& pass) {
    constexpr std::size_t trained = variables_of<L, In>().size();
    DecodePass<T> own = pass;
    own.weights = pass.state.first(trained);
    own.state = pass.state.subspan(trained);
    Decoding<L, In, T>::run(own);
  }
};

template <class EmbeddingLayer, class... Layers, class In, class T>
  requires(
      Decoding<EmbeddingLayer, In, T>::can_decode &&
      Decoding<Sequential<Layers...>, typename EmbeddingLayer::template Output<In>, T>::can_decode)
struct Decoding<TiedHead<EmbeddingLayer, Layers...>, In, T> : DecodingOfRows {
  using Head = TiedHead<EmbeddingLayer, Layers...>;
  using Tokens = typename EmbeddingLayer::template Output<In>;
  using First = Decoding<EmbeddingLayer, In, T>;
  using Body = Decoding<Sequential<Layers...>, Tokens, T>;
  static constexpr std::size_t width = Tokens::Token::size;

  static constexpr bool mixes = Body::mixes;
  static constexpr bool cuts = true;
  static constexpr bool masks_zero = First::masks_zero;
  static constexpr std::size_t ids = First::ids;
  static constexpr std::size_t positions = std::min(First::positions, Body::positions);
  static constexpr std::size_t cache = Body::cache;
  static std::size_t memory(std::size_t rows) {
    return 3 * decode_elements(width, rows) + padded_batch(Body::memory(rows));
  }
  static void run(const DecodePass<T>& pass) {
    const std::size_t rows = pass.x.samples(), outputs = pass.y.samples();
    const TensorView<T> tokens = decode_view(pass.memory, width, rows);
    const TensorView<T> hidden =
        decode_view(tokens.data() + decode_elements(width, rows), width, outputs);
    T* const by_row = hidden.data() + decode_elements(width, rows);
    if (outputs > 1) std::fill_n(hidden.data(), width * hidden.stride(), T(0));
    DecodePass<T> part = pass;
    part.weights = pass.weights.first(1);
    part.y = tokens;
    First::run(part);
    part.weights = pass.weights.subspan(1);
    part.x = tokens;
    part.y = hidden;
    part.memory = by_row + decode_elements(width, rows);
    Body::run(part);
    const T* const table = pass.weights[0].data();
    if (kernels::other_weights<T>.holds(table))
      return decode_product<T>(hidden, table, nullptr, pass.y);
    if (outputs > 1) std::fill_n(pass.y.data(), pass.y.features() * pass.y.stride(), T(0));
    for (std::size_t row = 0; row < outputs; ++row)
      for (std::size_t f = 0; f < width; ++f) by_row[row * width + f] = hidden(row, f);
    kernels::dispatch(kernels::TableProduct<T>{Head::template vocabulary<In>, width, outputs, table,
                                               by_row, pass.y.stride(), pass.y.data()});
  }
};

template <class L, class In>
inline constexpr bool sees_later_positions = false;
template <std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options, class In>
inline constexpr bool sees_later_positions<MultiHeadAttention<Heads, KeyDim, Options>, In> =
    !Options.use_causal_mask;
template <class L, class In>
  requires(requires { typename L::RecurrentCell; })
inline constexpr bool sees_later_positions<L, In> = L::goes_backwards;
template <class L>
inline constexpr bool gives_the_last_state_alone = false;
template <class L>
  requires(requires { typename L::RecurrentCell; })
inline constexpr bool gives_the_last_state_alone<L> = !L::returns_sequences;

/// The conditions of messages; the layer and its input are printed beside them.
template <class L, class In>
concept SeesEarlierPositionsAlone = !sees_later_positions<L, In>;
template <class L, class In>
concept GivesAllStates = !gives_the_last_state_alone<L>;
template <class L, class In, class T>
concept DecodesTokenByToken = Decoding<L, In, T>::can_decode;

/// Says why a layer cannot decode: of containers, which of their layers.
template <class L, class In, class T>
struct DecodingCheck {
  static consteval bool check() {
    static_assert(SeesEarlierPositionsAlone<L, In>,
                  "lockstep: Generator writes one token after the other, and this layer sees later "
                  "ones: an attention needs .use_causal_mask = true, a recurrent layer "
                  ".go_backwards = false");
    static_assert(GivesAllStates<L, In>,
                  "lockstep: Generator needs the outputs of all positions: give this recurrent "
                  "layer .return_sequences = true");
    if constexpr (SeesEarlierPositionsAlone<L, In> && GivesAllStates<L, In>)
      static_assert(DecodesTokenByToken<L, In, T>,
                    "lockstep: Generator cannot give this layer a text token by token: it takes "
                    "layers that are applied to each token, Embedding, PositionEmbedding, causal "
                    "MultiHeadAttention, LSTM, GRU, SimpleRNN, and your own with decode (see "
                    "network/decoding.hpp); not Conv1D, Bidirectional, pooling, LoRA around an "
                    "attention (merge its weights) and what mixes positions otherwise");
    return true;
  }
};
template <class In, class T, class... At>
consteval bool check_decoding_of(LayerList<At...>) {
  return (DecodingCheck<typename At::Work, typename At::Input, T>::check() && ...);
}
template <class... Layers, class In, class T>
struct DecodingCheck<Sequential<Layers...>, In, T> {
  static consteval bool check() {
    return check_decoding_of<In, T>(typename ChainOf<In, Layers...>::Steps{});
  }
};
template <class... Layers, class In, class T>
struct DecodingCheck<Recompute<Layers...>, In, T>
    : DecodingCheck<typename Recompute<Layers...>::Body, In, T> {};
template <class L, class In, class T>
struct DecodingCheck<Float32<L>, In, T> : DecodingCheck<L, In, T> {};
template <std::size_t Times, class L, class In, class T>
struct DecodingCheck<Repeat<Times, L>, In, T> : DecodingCheck<L, In, T> {};
template <class L, class In, class T>
  requires SequenceLayer<L>
struct DecodingCheck<Frozen<L>, In, T> : DecodingCheck<L, In, T> {};
template <class In, class T, class... Branches>
struct DecodingCheckOfBranches {
  template <class B>
  static consteval bool check_branch() {
    if constexpr (!LayerAt<0, B, In>::aliases) return DecodingCheck<B, In, T>::check();
    return true;
  }
  static consteval bool check() { return (check_branch<Branches>() && ...); }
};
template <class Merge, class... Branches, class In, class T>
struct DecodingCheck<Parallel<Merge, Branches...>, In, T>
    : DecodingCheckOfBranches<In, T, Branches...> {};
template <class... Layers, class In, class T>
struct DecodingCheck<Residual<Layers...>, In, T>
    : DecodingCheckOfBranches<In, T, Sequential<Layers...>> {};
template <class Branch, class Shortcut, class In, class T>
  requires(is_sequential<Branch> && is_sequential<Shortcut>)
struct DecodingCheck<Residual<Branch, Shortcut>, In, T>
    : DecodingCheckOfBranches<In, T, Branch, Shortcut> {};
template <class Function, class... Layers, class In, class T>
struct DecodingCheck<ActivatedResidual<Function, Layers...>, In, T>
    : DecodingCheck<Residual<Layers...>, In, T> {};
template <class EmbeddingLayer, class... Layers, class In, class T>
struct DecodingCheck<TiedHead<EmbeddingLayer, Layers...>, In, T>
    : DecodingCheck<Sequential<EmbeddingLayer, Layers...>, In, T> {};

/// A network, as what is no template of it sees it.
template <class T>
struct Decoder {
  std::size_t vocabulary;
  std::size_t ids;        ///< that the first layer takes
  std::size_t positions;  ///< of the longest text
  std::size_t at_once;    ///< rows of one pass, at most
  std::size_t cache;      ///< elements for a text
  bool masks_zero;
  std::size_t (*memory)(std::size_t rows);
  void (*run)(const DecodePass<T>& pass);
};

template <class Net, class T>
constexpr Decoder<T> decoder_of() {
  using In = typename Net::InputShape;
  using Work = Decoding<Net, In, T>;
  return {.vocabulary = TokenOf<typename Net::template Output<In>>::size,
          .ids = Work::ids,
          .positions = Work::positions,
          .at_once = In::size,
          .cache = Work::cache,
          .masks_zero = Work::masks_zero,
          .memory = Work::memory,
          .run = Work::run};
}

}  // namespace detail
}}  // namespace lockstep
