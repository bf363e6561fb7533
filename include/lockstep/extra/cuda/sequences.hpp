// The layers of sequences that run on a device: embeddings, normalisation, attention, tied heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/extra/cuda/layers.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/channels.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/tied_head.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

template <class Device>
void clear_on(Device& device, float* to, std::size_t n) {
  cuda::launch_each(device, n, cuda::Fill{to, 0});
}
/// The rows from `rows` on, of [features][stride].
template <class Device>
void clear_padding_on(Device& device, float* to, std::size_t features, std::size_t rows,
                      std::size_t stride) {
  if (rows < stride)
    cuda::launch_each(
        device, features * (stride - rows),
        cuda::ClearRows{to, static_cast<unsigned>(rows), static_cast<unsigned>(stride)});
}

/// See TiedHead.
template <class Device>
struct DeviceTableProducts {
  static constexpr std::size_t scratch(const kernels::DenseSize& size) {
    return DenseProducts::scratch(size.inputs, size.units, size.stride);
  }
  template <class T>
  static void forward(const kernels::DenseSize& size, const T* table, const T* hidden, T* logits,
                      T* scratch) {
    products(size, scratch).input(Device::instance(), table, hidden, logits);
  }
  template <class T>
  static void backward(const kernels::DenseSize& size, const T* table, const T* hidden,
                       const T* d_logits, T* d_table, T* d_hidden, T* scratch) {
    Device& device = Device::instance();
    products(size, scratch).weights(device, d_logits, hidden, d_table);
    products(size, scratch).forward(device, d_logits, table, nullptr, d_hidden);
  }
  template <class T>
  static void clear(T* to, std::size_t n) {
    clear_on(Device::instance(), to, n);
  }

 private:
  static DenseProducts products(const kernels::DenseSize& size, float* scratch) {
    return {size.inputs, size.units, size.stride, scratch};
  }
};

template <class Device, std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options>
struct DeviceEmbedding : Embedding<Vocabulary, Width, Options> {
  static_assert(!Options.mask_zero, "lockstep: on the device Embedding has no mask_zero");
  static_assert(Vocabulary <= std::size_t{1} << std::numeric_limits<float>::digits,
                "lockstep: Embedding has more ids than float has whole numbers (2^24)");
  using TableProducts = DeviceTableProducts<Device>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t n = pass.y.stride();
    cuda::launch_each(
        Device::instance(), Width * n,
        cuda::Gather{pass.weights[0].data(), pass.x.data(), pass.scratch.data(), pass.y.data(),
                     static_cast<unsigned>(Vocabulary), static_cast<unsigned>(Width),
                     static_cast<unsigned>(In::size), static_cast<unsigned>(pass.x.samples()),
                     static_cast<unsigned>(pass.x.stride()), static_cast<unsigned>(n)});
  }

  template <class In, class T>
  static void add_gradient(const BackwardPass<T>& pass) {
    const std::size_t rows = In::size * pass.x.samples();
    cuda::launch_each(Device::instance(), rows * Width,
                      cuda::Scatter{pass.scratch.data(), pass.dy.data(), pass.gradients[0].data(),
                                    static_cast<unsigned>(Width), static_cast<unsigned>(rows),
                                    static_cast<unsigned>(pass.dy.stride())});
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    clear_on(Device::instance(), pass.gradients[0].data(), pass.gradients[0].size());
    add_gradient<In, T>(pass);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    clear_on(Device::instance(), pass.dx.data(), In::size * pass.dx.stride());
  }
};

template <class Device, std::size_t MaxPositions, PositionEmbeddingOptions Options>
struct DevicePositionEmbedding : PositionEmbedding<MaxPositions, Options> {
  template <class In>
  static constexpr std::size_t scratch(std::size_t) {
    return 0;
  }
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    constexpr std::size_t width = In::Token::size;
    cuda::launch_each(
        Device::instance(), width * pass.x.stride(),
        cuda::AddPositions{pass.x.data(), pass.weights[0].data(), pass.y.data(),
                           static_cast<unsigned>(width), static_cast<unsigned>(In::positions),
                           static_cast<unsigned>(pass.x.samples()),
                           static_cast<unsigned>(pass.x.stride())});
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    constexpr std::size_t width = In::Token::size;
    cuda::launch_each(
        Device::instance(), width * MaxPositions,
        cuda::SumPositions{
            pass.dy.data(), pass.gradients[0].data(), static_cast<unsigned>(width),
            static_cast<unsigned>(In::positions), static_cast<unsigned>(pass.dy.samples()),
            static_cast<unsigned>(pass.dy.stride()), static_cast<unsigned>(MaxPositions)});
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    if (pass.dx.data() != pass.dy.data())
      Device::instance().copy(pass.dx.data(), pass.dy.data(),
                              In::Token::size * pass.dy.stride() * sizeof(T));
  }
};

template <class Device, LayerNormalizationOptions Options>
struct DeviceLayerNormalization : LayerNormalization<Options> {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const auto [gamma, beta] = scale_and_center_of<Options>(pass.weights);
    T* const mean = pass.scratch.data();
    Device::instance().launch(cuda::LayerNormalize{
        rows<In>(pass.x), pass.x.data(), gamma, beta, static_cast<float>(Options.epsilon), mean,
        mean + pixels<In> * pass.x.stride(), pass.y.data()});
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    const auto [d_gamma, d_beta] = scale_and_center_of<Options>(pass.gradients);
    const T* const mean = pass.scratch.data();
    Device::instance().launch(cuda::LayerNormalizeWeights{
        static_cast<unsigned>(pixels<In>), static_cast<unsigned>(channels<In>),
        static_cast<unsigned>(pass.x.samples()), static_cast<unsigned>(pass.x.stride()),
        pass.x.data(), pass.dy.data(), mean, mean + pixels<In> * pass.x.stride(), d_gamma, d_beta});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if constexpr (Options.scale || Options.center) backward_weights<In, T>(pass);
    const T* const mean = pass.scratch.data();
    Device::instance().launch(cuda::LayerNormalizeGradient{
        rows<In>(pass.x), pass.x.data(), scale_and_center_of<Options>(pass.weights).gamma,
        pass.dy.data(), mean, mean + pixels<In> * pass.x.stride(), pass.dx.data()});
  }

 private:
  template <class In, class View>
  static cuda::PixelRows rows(const View& x) {
    static_assert(batch_multiple % cuda::PixelRows::rows == 0);
    return {static_cast<unsigned>(pixels<In>), static_cast<unsigned>(channels<In>),
            static_cast<unsigned>(x.stride())};
  }
};

/// As AttentionWork, with all probabilities kept, [sample][head][key][query].
template <class Device>
class DeviceAttentionWork {
 public:
  /// Where arrays begin in scratch, and in temporary memory.
  struct Places {
    std::size_t q, k, v, o, p, end;
  };
  static constexpr Places places(const AttentionLayout& l, std::size_t samples) {
    const kernels::AttentionSize s = l.size(samples);
    Places at{};
    std::size_t next = 0;
    const auto take = [&next](std::size_t& place, std::size_t elements) {
      place = next;
      next += padded_batch(elements);
    };
    take(at.q, l.keys_of_heads() * s.query_stride);
    take(at.k, l.keys_of_heads() * s.key_stride);
    take(at.v, l.values_of_heads() * s.key_stride);
    take(at.o, l.values_of_heads() * s.query_stride);
    take(at.p, samples * l.heads * l.keys * l.queries);
    at.end = next;
    return at;
  }
  /// Gradients of all of these, and what products need.
  static constexpr std::size_t temporary(const AttentionLayout& l, std::size_t samples) {
    const kernels::AttentionSize s = l.size(samples);
    return places(l, samples).end +
           std::max({DenseProducts::scratch(l.query_width, l.keys_of_heads(), s.query_stride),
                     DenseProducts::scratch(l.value_width, l.keys_of_heads(), s.key_stride),
                     DenseProducts::scratch(l.value_width, l.values_of_heads(), s.key_stride),
                     DenseProducts::scratch(l.values_of_heads(), l.output_width, s.query_stride)});
  }

  DeviceAttentionWork(const AttentionLayout& layout, std::size_t samples, Slices<float> weights,
                      float* scratch, float* temporary)
      : layout_(layout),
        size_(layout.size(samples)),
        at_(places(layout, samples)),
        weights_(weights),
        scratch_(scratch),
        gradients_(temporary),
        partial_(temporary + at_.end) {}

  void forward(const float* x, float* y) const {
    float *const q = scratch_ + at_.q, *const k = scratch_ + at_.k, *const v = scratch_ + at_.v,
                 *const o = scratch_ + at_.o, *const p = scratch_ + at_.p;
    project(query, x, q);
    project(key, x, k);
    project(value, x, v);
    const std::size_t n = size_.query_stride, m = size_.key_stride;
    multiply<cuda::DenseForward>(size_.keys, size_.queries, size_.key_size, of(k, 1, m, keys()),
                                 of(q, n, 1, queries()), scores(p));
    device_.launch(cuda::SoftmaxScores{all_scores(), scale(), p});
    multiply<cuda::DenseInput>(size_.value_size, size_.queries, size_.keys, of(v, m, 1, values()),
                               of_scores(p), of(o, n, 1, outputs()));
    clear_padding_on(device_, o, layout_.values_of_heads(), rows(), n);
    project(output, o, y);
  }

  /// dx may be null: not wanted.
  void backward(const float* x, float* dy, Slices<float> gradients, float* dx) const {
    const float *const q = scratch_ + at_.q, *const k = scratch_ + at_.k,
                       *const v = scratch_ + at_.v, *const o = scratch_ + at_.o,
                       *const p = scratch_ + at_.p;
    float *const dq = gradients_ + at_.q, *const dk = gradients_ + at_.k,
                 *const dv = gradients_ + at_.v, *const d_o = gradients_ + at_.o,
                 *const dp = gradients_ + at_.p;
    weight_gradients(output, o, dy, gradients);
    products(output).input(device_, kernel(output, weights_), dy, d_o);
    const std::size_t n = size_.query_stride, m = size_.key_stride;
    multiply<cuda::DenseForward>(size_.keys, size_.queries, size_.value_size, of(v, 1, m, values()),
                                 of(d_o, n, 1, outputs()), scores(dp));
    device_.launch(cuda::SoftmaxScoresGradient{all_scores(), scale(), p, dp});
    multiply<cuda::DenseWeights>(size_.value_size, size_.keys, size_.queries,
                                 of(d_o, n, 1, outputs()), transposed_scores(p),
                                 of(dv, m, 1, values()));
    multiply<cuda::DenseInput>(size_.key_size, size_.queries, size_.keys, of(k, m, 1, keys()),
                               of_scores(dp), of(dq, n, 1, queries()));
    multiply<cuda::DenseWeights>(size_.key_size, size_.keys, size_.queries, of(q, n, 1, queries()),
                                 transposed_scores(dp), of(dk, m, 1, keys()));
    clear_padding_on(device_, dq, layout_.keys_of_heads(), rows(), n);
    clear_padding_on(device_, dk, layout_.keys_of_heads(), rows(), m);
    clear_padding_on(device_, dv, layout_.values_of_heads(), rows(), m);
    weight_gradients(query, x, dq, gradients);
    weight_gradients(key, x, dk, gradients);
    weight_gradients(value, x, dv, gradients);
    if (dx == nullptr) return;
    products(query).input(device_, kernel(query, weights_), dq, dx);
    products(key).more_input(device_, kernel(key, weights_), dk, dx);
    products(value).more_input(device_, kernel(value, weights_), dv, dx);
  }

 private:
  enum Projection : std::size_t { query, key, value, output };

  /// The first head's matrix, and the steps to the others.
  template <class T>
  struct Matrices {
    cuda::MatrixOf<T> first;
    cuda::Index by_head, by_sample;
  };
  struct Steps {
    std::size_t by_head, by_sample;
  };
  [[nodiscard]] Steps queries() const {
    return {size_.key_size * size_.query_stride, size_.queries};
  }
  [[nodiscard]] Steps keys() const { return {size_.key_size * size_.key_stride, size_.keys}; }
  [[nodiscard]] Steps values() const { return {size_.value_size * size_.key_stride, size_.keys}; }
  [[nodiscard]] Steps outputs() const {
    return {size_.value_size * size_.query_stride, size_.queries};
  }
  template <class T>
  static Matrices<T> of(T* data, std::size_t row_step, std::size_t column_step,
                        const Steps& steps) {
    return {{data, row_step, column_step}, steps.by_head, steps.by_sample};
  }
  template <class T>
  [[nodiscard]] Matrices<T> scores(T* p) const {
    const std::size_t one = size_.keys * size_.queries;
    return of(p, size_.queries, 1, {one, size_.heads * one});
  }
  [[nodiscard]] Matrices<const float> of_scores(const float* p) const { return scores(p); }
  [[nodiscard]] Matrices<const float> transposed_scores(const float* p) const {
    Matrices<const float> all = scores(p);
    std::swap(all.first.row_step, all.first.column_step);
    return all;
  }

  template <class Product, class A, class B>
  void multiply(std::size_t rows, std::size_t columns, std::size_t inner, const Matrices<A>& a,
                const Matrices<B>& b, const Matrices<float>& c) const {
    const auto input = [](const auto& m) {
      return cuda::Matrix{m.first.data, m.first.row_step, m.first.column_step};
    };
    const auto number = [](std::size_t n) { return static_cast<unsigned>(n); };
    device_.launch(
        cuda::Batched<Product>{{input(a), input(b), cuda::Result<cuda::Rows>{c.first}, number(rows),
                                number(columns), number(inner), 1, nullptr},
                               {a.by_head, a.by_sample},
                               {b.by_head, b.by_sample},
                               {c.by_head, c.by_sample},
                               number(size_.heads),
                               number(size_.samples)});
  }
  [[nodiscard]] cuda::Scores all_scores() const {
    return {static_cast<unsigned>(size_.samples * size_.heads), static_cast<unsigned>(size_.keys),
            static_cast<unsigned>(size_.queries), size_.causal};
  }
  [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(size_.key_size)); }
  [[nodiscard]] std::size_t rows() const { return size_.samples * size_.queries; }

  [[nodiscard]] DenseProducts products(Projection p) const {
    return {p == query    ? layout_.query_width
            : p == output ? layout_.values_of_heads()
                          : layout_.value_width,
            p == output  ? layout_.output_width
            : p == value ? layout_.values_of_heads()
                         : layout_.keys_of_heads(),
            size_.query_stride, partial_};
  }
  [[nodiscard]] float* kernel(Projection p, Slices<float> slices) const {
    return slices[layout_.use_bias ? 2 * p : p].data();
  }
  [[nodiscard]] float* bias(Projection p, Slices<float> slices) const {
    return layout_.use_bias ? slices[2 * p + 1].data() : nullptr;
  }
  void project(Projection p, const float* x, float* y) const {
    products(p).forward(device_, x, kernel(p, weights_), bias(p, weights_), y);
  }
  void weight_gradients(Projection p, const float* x, float* dy, Slices<float> gradients) const {
    const DenseProducts all = products(p);
    activation_and_bias(device_, cuda::Function::linear, nullptr, dy, bias(p, gradients), 1,
                        all.units, all.stride, nullptr);
    all.weights(device_, x, dy, kernel(p, gradients));
  }

  Device& device_ = Device::instance();
  AttentionLayout layout_;
  kernels::AttentionSize size_;
  Places at_;
  Slices<float> weights_;
  float *scratch_, *gradients_, *partial_;
};

template <class Device, std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
struct DeviceAttention : MultiHeadAttention<Heads, KeyDim, Options> {
  static_assert(Options.dropout <= 0,
                "lockstep: on the device MultiHeadAttention has no dropout of probabilities");
  static_assert(Options.num_key_value_heads == 0 && Options.sliding_window == 0 &&
                    Options.rope_theta == 0,
                "lockstep: on the device MultiHeadAttention has no groups of heads, no "
                "sliding_window and no rope_theta");

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return Work::places(layout<In>(), samples).end;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return Work::temporary(layout<In>(), samples);
  }
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    work<In>(pass).forward(pass.x.data(), pass.y.data());
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    work<In>(pass).backward(pass.x.data(), pass.dy.data(), pass.gradients, nullptr);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    work<In>(pass).backward(pass.x.data(), pass.dy.data(), pass.gradients, pass.dx.data());
  }

 private:
  using Work = DeviceAttentionWork<Device>;
  template <class In>
  static constexpr AttentionLayout layout() {
    return attention_layout<In, In>(Heads, KeyDim, Options);
  }
  template <class In, class Pass>
  static Work work(const Pass& pass) {
    return {layout<In>(), pass.x.samples() / In::positions, pass.weights, pass.scratch.data(),
            pass.temporary.data()};
  }
};

}  // namespace detail

template <class Device, std::size_t Vocabulary, std::size_t Width, EmbeddingOptions Options>
struct DeviceLayer<Device, Embedding<Vocabulary, Width, Options>> {
  using Type = detail::DeviceEmbedding<Device, Vocabulary, Width, Options>;
};
template <class Device, std::size_t MaxPositions, PositionEmbeddingOptions Options>
struct DeviceLayer<Device, PositionEmbedding<MaxPositions, Options>> {
  using Type = detail::DevicePositionEmbedding<Device, MaxPositions, Options>;
};
template <class Device, LayerNormalizationOptions Options>
struct DeviceLayer<Device, LayerNormalization<Options>> {
  using Type = detail::DeviceLayerNormalization<Device, Options>;
};
template <class Device, std::size_t Heads, std::size_t KeyDim, MultiHeadAttentionOptions Options>
struct DeviceLayer<Device, MultiHeadAttention<Heads, KeyDim, Options>> {
  using Type = detail::DeviceAttention<Device, Heads, KeyDim, Options>;
};
template <class Device, class EmbeddingLayer, class... Layers>
struct DeviceLayer<Device, TiedHead<EmbeddingLayer, Layers...>> {
  using Type = TiedHead<typename DeviceLayer<Device, EmbeddingLayer>::Type,
                        typename DeviceLayer<Device, Layers>::Type...>;
};

}}  // namespace lockstep
