// Each layer of the models in models.hpp by itself, on one thread.
//
// benchmark_layers [options of Google Benchmark]
//
// Names: layer/MODEL/LAYER/PASS with the passes forward, weight_gradient (with the gradients of
// bias, activation and all that is inside an attention) and input_gradient (what backward takes
// beyond weight_gradient), or backward for a layer without a product and for TiedHead;
// layer/MODEL/loss/forward_backward; layer/MODEL/sgd/update; peak; memory. MODEL "image": other
// layers over 64 images; "sequence": layers over 32 sequences of 200 tokens; "activation":
// functions of a million numbers; "gpt_layers": those of a GPT of characters over 12 sequences, and
// attention of other shapes. What a step takes beyond the sum of a model's layers is the input,
// metrics and reduction. Counters: FLOP and bytes (0: not counted) and FLOP/s.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fma_peak.hpp"
#include "layers_of.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/layers/up_sampling.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/tied_head.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;

/// The thread's processor time, in seconds: other programs disturb it little.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Array {
 public:
  Array(std::size_t size, float scale) : buffer_(size * sizeof(float)), size_(size) {
    std::uint32_t state =
        1;  // in [-scale, scale); quicker than <random>, and most of the time would go there
    std::generate_n(data(), size, [&] {
      state = state * 1664525u + 1013904223u;
      return scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    });
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(buffer_.data()); }
  [[nodiscard]] std::span<float> span() const { return {data(), size_}; }

 private:
  ls::Buffer buffer_;
  std::size_t size_;
};

/// The arrays of some variables.
class Arrays {
 public:
  template <class Variables>
  Arrays(const Variables& variables, float scale) {
    for (const ls::Variable& variable : variables) arrays_.emplace_back(variable.size(), scale);
    for (const Array& array : arrays_) spans_.push_back(array.span());
  }
  [[nodiscard]] ls::Slices<float> slices() const { return spans_; }

 private:
  std::vector<Array> arrays_;
  std::vector<std::span<float>> spans_;
};

/// A layer with all that it needs to run.
template <class At>
class Rig {
  using Given = typename At::Given;
  static constexpr auto in = ls::detail::tensor_size<typename At::Input>;
  static constexpr auto out = ls::detail::tensor_size<typename At::Output>;

 public:
  explicit Rig(std::size_t samples) : samples_(samples) {
    context_.sample_indices = indices_;
    if constexpr (At::Layer::name == "embedding" || At::Layer::name == "tied_head")  // ids below 64
      for (std::size_t i = 0; i < in.elements(samples_); ++i)
        x_.data()[i] = static_cast<float>(i * 37 % 64);
    forward();
  }

  void forward() {
    At::Work::template forward<Given, float>(
        {.context = context_,
         .weights = weights_.slices(),
         .state = state_.slices(),
         .x = in.view(static_cast<const float*>(x_.data()), samples_),
         .y = out.view(y_.data(), samples_),
         .scratch = scratch_.span(),
         .temporary = temporary_.span()});
  }
  /// The seconds of one backward or backward_weights, which may overwrite dy.
  double backward(bool weights_only) {
    std::ranges::copy(kept_dy_.span(), dy_.data());
    const ls::BackwardPass<float> pass{
        .context = context_,
        .weights = weights_.slices(),
        .state = state_.slices(),
        .x = in.view(static_cast<const float*>(x_.data()), samples_),
        .y = out.view(static_cast<const float*>(y_.data()), samples_),
        .dy = out.view(dy_.data(), samples_),
        .dx = in.view(dx_.data(), samples_),
        .gradients = gradients_.slices(),
        .scratch = scratch_.span(),
        .temporary = temporary_.span()};
    const double begin = now();
    if constexpr (requires { At::Work::template backward_weights<Given, float>(pass); }) {
      if (weights_only)
        At::Work::template backward_weights<Given, float>(pass);
      else
        At::Work::template backward<Given, float>(pass);
    } else {
      At::Work::template backward<Given, float>(pass);
    }
    return now() - begin;
  }

 private:
  [[nodiscard]] std::size_t scratch() const { return At::place().scratch_size(samples_); }
  [[nodiscard]] std::size_t temporary() const { return At::place().temporary_size(samples_); }

  std::size_t samples_;
  std::vector<std::int64_t> indices_ = std::vector<std::int64_t>(samples_);
  ls::StepContext context_{.training = true};
  Array x_{in.elements(samples_), 1}, y_{out.elements(samples_), 1}, dx_{in.elements(samples_), 1};
  Array dy_{out.elements(samples_), 1}, kept_dy_{out.elements(samples_), 1}, scratch_{scratch(), 1},
      temporary_{temporary(), 1};
  Arrays weights_{At::info().variables, 0.05f}, gradients_{At::info().variables, 1},
      state_{At::info().state_variables, 1};
};

/// `bytes`: that a layer reads and writes at least, each array once.
template <class F>
void add(const std::string& name, double flop, double bytes, F run) {
  benchmark::RegisterBenchmark(("layer/" + name).c_str(),
                               [flop, bytes, run](benchmark::State& state) {
                                 run(state);
                                 benchmarks::count_flop(state, flop, bytes);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// A benchmark of f, after one call that is not timed.
template <class F>
void measure(benchmark::State& state, F f) {
  f();
  for (auto _ : state) {
    const double begin = now();
    f();
    state.SetIterationTime(now() - begin);
  }
}

template <class At>
void add_layer(const std::string& name, std::size_t samples, bool first) {
  const ls::Flop flop = benchmarks::flop_of<At>(samples);
  const auto weights = static_cast<double>(flop.backward_weights);
  const double x = benchmarks::bytes_of<typename At::Input>(samples);
  const double y = benchmarks::bytes_of<typename At::Output>(samples);
  add(name + "/forward", static_cast<double>(flop.forward), x + y,
      [samples](benchmark::State& state) {
        Rig<At> rig(samples);
        measure(state, [&] { rig.forward(); });
      });
  if constexpr (benchmarks::flop_of<At>(1).backward > benchmarks::flop_of<At>(1).backward_weights) {
    add(name + "/weight_gradient", weights, x + y, [samples](benchmark::State& state) {
      Rig<At> rig(samples);
      rig.backward(true);
      for (auto _ : state) state.SetIterationTime(rig.backward(true));
    });
    if (first) return;
    add(name + "/input_gradient", static_cast<double>(flop.backward) - weights, x + y,
        [samples](benchmark::State& state) {
          Rig<At> rig(samples);
          rig.backward(false);
          for (auto _ : state) {
            const double both = rig.backward(false);
            state.SetIterationTime(both - rig.backward(true));
          }
        });
  } else {
    add(name + "/backward", weights, 2 * x + y, [samples](benchmark::State& state) {
      Rig<At> rig(samples);
      rig.backward(false);
      for (auto _ : state) state.SetIterationTime(rig.backward(false));
    });
  }
}

template <class Subject>
void add_loss(const std::string& name) {
  add(name, 0, 0, [](benchmark::State& state) {
    using Out = typename Subject::Net::template Output<typename Subject::Net::InputShape>;
    const std::size_t stride = ls::padded_batch(Subject::batch);
    const Array y(Out::size * stride, 1), dy(Out::size * stride, 1), targets(stride, 0);
    const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
    std::vector<double> losses(Subject::batch);
    measure(state, [&] {
      loss.compute(ls::TensorView<const float>(y.data(), Subject::batch, Out::size, stride),
                   ls::TensorView<const float>(targets.data(), Subject::batch, 1, stride),
                   std::span(losses),
                   ls::TensorView<float>(dy.data(), Subject::batch, Out::size, stride));
      benchmark::DoNotOptimize(losses.data());
    });
  });
}

void add_update(const std::string& name, std::size_t parameters) {
  add(name, 0, 12.0 * static_cast<double>(parameters), [parameters](benchmark::State& state) {
    const Array w(parameters, 0.05f), g(parameters, 1);
    const ls::SGD sgd{};
    const ls::UpdateContext context{.learning_rate = 1e-6, .gradient_scale = 1.0 / 64};
    measure(state, [&] { sgd.update(context, w.span(), std::span<const float>(g.span()), {}); });
  });
}

/// "memory": a copy from one large array to another, what memory can do.
void add_memory() {
  benchmark::RegisterBenchmark(
      "memory",
      [](benchmark::State& state) {
        constexpr std::size_t size = std::size_t{1} << 24;
        const Array from(size, 1), to(size, 1);
        measure(state, [&] {
          ls::kernels::sweep(
              size, [](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = in; },
              static_cast<const float*>(from.data()), to.data());
        });
        benchmarks::count_flop(state, 0, 2.0 * size * sizeof(float));
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

/// Layers of images that the models do not have.
void add_image_layers() {
  using Image = ls::Shape<32, 32, 64>;
  const auto add_image_layer = []<class L>(const std::string& name) {
    add_layer<ls::detail::LayerAt<0, L, Image>>("image/" + name, 64, false);
  };
  constexpr ls::DepthwiseConv2DOptions depthwise{.padding = ls::Padding::same, .use_bias = false};
  constexpr ls::Conv2DOptions groups{.padding = ls::Padding::same, .groups = 4, .use_bias = false};
  constexpr ls::Conv2DOptions gaps{
      .padding = ls::Padding::same, .dilation_rate = 2, .use_bias = false};
  add_image_layer.operator()<ls::DepthwiseConv2D<3, ls::Linear, depthwise>>("depthwise_conv2d");
  add_image_layer.operator()<ls::Conv2D<64, 3, ls::Linear, groups>>("conv2d_groups");
  add_image_layer.operator()<ls::Conv2D<64, 3, ls::Linear, gaps>>("conv2d_dilation");
  constexpr ls::SeparableConv2DOptions separable{.padding = ls::Padding::same, .use_bias = false};
  constexpr ls::Conv2DTransposeOptions doubles{
      .stride = 2, .padding = ls::Padding::same, .use_bias = false};
  add_image_layer.operator()<ls::SeparableConv2D<64, 3, ls::Linear, separable>>("separable_conv2d");
  add_image_layer.operator()<ls::Conv2DTranspose<32, 3, ls::Linear, doubles>>("conv2d_transpose");
  add_image_layer.operator()<ls::GroupNormalization<8>>("group_normalization");
  add_image_layer.operator()<ls::RMSNormalization<>>("rms_normalization");
  add_image_layer.operator()<ls::ZeroPadding2D<1>>("zero_padding2d");
  add_image_layer.operator()<ls::UpSampling2D<>>("up_sampling2d");
  add_image_layer.operator()<ls::Cropping2D<1>>("cropping2d");
  add_image_layer.operator()<ls::Permute<3, 1, 2>>("permute");
  add_image_layer.operator()<ls::SpatialDropout2D<0.5>>("spatial_dropout2d");
  add_image_layer.operator()<ls::GaussianNoise<0.1>>("gaussian_noise");
  add_image_layer.operator()<ls::Rescaling<0.5>>("rescaling");
  add_image_layer.operator()<ls::Normalization<>>("normalization");
  add_image_layer.operator()<ls::Softmax>("softmax");
  add_image_layer.operator()<ls::LayerNormalization<>>("layer_normalization");
  add_image_layer.operator()<ls::Dropout<0.5>>("dropout");
  add_image_layer.operator()<ls::GaussianDropout<0.1>>("gaussian_dropout");
  add_image_layer.operator()<ls::ActivityRegularization<ls::L1L2{.l1 = 0.01, .l2 = 0.01}>>(
      "activity_regularization");
  add_image_layer.operator()<ls::AveragePooling2D<2>>("average_pooling2d");
  add_image_layer.operator()<ls::GlobalAveragePooling2D>("global_average_pooling2d");
  add_image_layer.operator()<ls::GlobalMaxPooling2D>("global_max_pooling2d");
}

/// An Activation of each function, as a layer by itself.
template <class... Functions>
void add_activations() {
  using Values = ls::Shape<4096>;
  (add_layer<ls::detail::LayerAt<0, ls::Activation<Functions>, Values>>(
       "activation/" + std::string(Functions::name), 256, false),
   ...);
}

}  // namespace

int main(int argc, char** argv) {
  benchmarks::register_peak();
  add_memory();
  benchmarks::for_each_model([]<class Subject>() {
    const std::string model(Subject::name);
    benchmarks::for_each_layer<typename Subject::Net>(
        [&]<class At>(const std::string& name, bool first) {
          add_layer<At>(model + "/" + name, Subject::batch, first);
        });
    add_loss<Subject>(model + "/loss/forward_backward");
    add_update(model + "/sgd/update", Subject::Net::parameter_count);
  });
  add_image_layers();
  // As in a classifier of 200 words.
  using Words = ls::Sequence<200, 128>;
  const auto add_sequence_layer = []<class L>(const std::string& name) {
    add_layer<ls::detail::LayerAt<0, L, Words>>("sequence/" + name, 32, false);
  };
  constexpr ls::LSTMOptions all_states{.return_sequences = true};
  add_sequence_layer.operator()<ls::LSTM<64>>("lstm");
  add_sequence_layer.operator()<ls::Bidirectional<ls::LSTM<64, all_states>>>("bidirectional_lstm");
  constexpr ls::GRUOptions reset_before{.reset_after = false};
  add_sequence_layer.operator()<ls::GRU<64>>("gru");
  add_sequence_layer.operator()<ls::GRU<64, reset_before>>("gru_reset_before");
  add_sequence_layer.operator()<ls::SimpleRNN<64>>("simple_rnn");
  add_sequence_layer.operator()<ls::Conv1D<128, 3, ls::ReLU>>("conv1d");
  add_sequence_layer.operator()<ls::MaxPooling1D<>>("max_pooling1d");
  add_sequence_layer.operator()<ls::AveragePooling1D<>>("average_pooling1d");
  add_sequence_layer.operator()<ls::GlobalAveragePooling1D>("global_average_pooling1d");
  add_sequence_layer.operator()<ls::GlobalMaxPooling1D>("global_max_pooling1d");
  add_sequence_layer.operator()<ls::SpatialDropout1D<0.5>>("spatial_dropout1d");
  add_sequence_layer.operator()<ls::GroupNormalization<8>>("group_normalization");
  add_sequence_layer.operator()<ls::Masking<>>("masking");
  add_sequence_layer.operator()<ls::ZeroPadding1D<1>>("zero_padding1d");
  add_sequence_layer.operator()<ls::Cropping1D<1>>("cropping1d");
  add_sequence_layer.operator()<ls::UpSampling1D<>>("up_sampling1d");
  add_sequence_layer.operator()<ls::Slice<32, 64>>("slice");
  add_layer<ls::detail::LayerAt<0, ls::RepeatVector<200>, ls::Shape<128>>>("sequence/repeat_vector",
                                                                           32, false);
  add_activations<ls::ReLU, ls::ReLU6, ls::LeakyReLU<>, ls::ELU, ls::SELU, ls::GELU, ls::GELUTanh,
                  ls::SiLU, ls::Softplus, ls::Softsign, ls::Mish, ls::HardSigmoid, ls::HardSiLU,
                  ls::Sigmoid, ls::Tanh, ls::Exponential>();
  // As in a GPT of characters.
  using Characters = ls::Sequence<64, 128>;
  const auto add_gpt_layer = []<class L, class In = Characters>(const std::string& name) {
    add_layer<ls::detail::LayerAt<0, L, In>>("gpt_layers/" + name, 12, false);
  };
  constexpr ls::MultiHeadAttentionOptions causal{.use_bias = false, .use_causal_mask = true};
  add_gpt_layer.operator()<ls::Embedding<65, 128>, ls::Shape<64>>("embedding");
  add_gpt_layer.operator()<ls::PositionEmbedding<64>>("position_embedding");
  add_gpt_layer.operator()<ls::LayerNormalization<>>("layer_normalization");
  add_gpt_layer.operator()<ls::MultiHeadAttention<4, 32, causal>>("multi_head_attention");
  // 1 head or 8; longer sequences, the last of which keep no probabilities; the width of GPT-2.
  add_gpt_layer.operator()<ls::MultiHeadAttention<1, 128, causal>>("attention_1_head");
  add_gpt_layer.operator()<ls::MultiHeadAttention<8, 16, causal>>("attention_8_heads");
  add_gpt_layer.operator()<ls::MultiHeadAttention<4, 32>>("attention_not_causal");
  using Long = ls::Sequence<256, 128>;
  using Longer = ls::Sequence<1024, 128>;
  using Wide = ls::Sequence<64, 768>;
  add_gpt_layer.operator()<ls::MultiHeadAttention<4, 32, causal>, Long>("attention_of_256");
  add_gpt_layer.operator()<ls::MultiHeadAttention<4, 32, causal>, Longer>("attention_of_1024");
  add_gpt_layer.operator()<ls::MultiHeadAttention<12, 64, causal>, Wide>("attention_768_wide");
  add_gpt_layer.operator()<ls::Dense<512, ls::GELU>>("dense_gelu");
  add_gpt_layer.operator()<ls::TiedHead<ls::Embedding<65, 128>, ls::PositionEmbedding<64>>,
                           ls::Shape<64>>("tied_head");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("instruction set",
                              std::string(ls::to_string(ls::kernels::instruction_set())));
  benchmark::RunSpecifiedBenchmarks();
}
