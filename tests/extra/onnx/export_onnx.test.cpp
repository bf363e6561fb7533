// Models as ONNX files: their structure, and what onnxruntime computes with them.
#include "lockstep/extra/onnx/export_onnx.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/extra/records/protobuf.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/inputs_outputs.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/network/swiglu.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/exported_models.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::Conv2DOptions half{.stride = 2, .padding = ls::Padding::same};
constexpr ls::Conv2DOptions wide{
    .padding = ls::Padding::same, .dilation_rate = 2, .groups = 2, .use_bias = false};
constexpr ls::DepthwiseConv2DOptions depthwise{.padding = ls::Padding::same, .depth_multiplier = 2};
constexpr ls::PoolingOptions pools{.stride = 2, .padding = ls::Padding::same};
constexpr ls::UpSampling2DOptions bilinear{.interpolation = ls::Interpolation::bilinear};
constexpr ls::SeparableConv2DOptions separable{.stride = 2, .padding = ls::Padding::same};
constexpr ls::BatchNormalizationOptions no_scale{.scale = false};

using Images = ls::Sequential<
    ls::Input<9, 8, 2>, ls::Rescaling<0.5, 0.25>, ls::Conv2D<6, 3, ls::ReLU, half>,
    ls::BatchNormalization<>,
    ls::Residual<ls::DepthwiseConv2D<3, ls::SiLU, depthwise>, ls::Conv2D<6, 1, ls::Tanh>>,
    ls::MaxPooling2D<ls::Extent2D{3, 2}, pools>, ls::ZeroPadding2D<ls::Margins2D{1, 0, 2, 1}>,
    ls::AveragePooling2D<3, pools>,
    ls::Parallel<ls::Concatenate, ls::Conv2D<4, 1, ls::GELU>,
                 ls::Sequential<ls::Conv2D<4, 3, ls::Linear, wide>, ls::Activation<ls::ELU>>>,
    ls::LayerNormalization<>, ls::UpSampling2D<2, bilinear>, ls::UpSampling2D<ls::Extent2D{1, 2}>,
    ls::SeparableConv2D<4, 3, ls::ReLU, separable>, ls::Cropping2D<ls::Margins2D{1, 0, 1, 2}>,
    ls::Permute<2, 3, 1>, ls::Flatten, ls::Slice<3, 8>, ls::Dense<5>, ls::Softmax>;

using Features =
    ls::Sequential<ls::Dense<4, ls::Mish>, ls::BatchNormalization<ls::Linear, no_scale>>;
using Flat =
    ls::Sequential<ls::Input<6>, ls::Dense<5, ls::SELU>, ls::BatchNormalization<ls::Softplus>,
                   ls::Frozen<Features>, ls::Dense<4, ls::GELUTanh>,
                   ls::Repeat<2, ls::Recompute<ls::Residual<ls::Dense<4, ls::HardSiLU>>>>,
                   ls::Parallel<ls::Average, ls::Dense<4, ls::HardSigmoid>, ls::Identity,
                                ls::Dense<4, ls::Softsign>>,
                   ls::Dropout<0.5>, ls::Reshape<2, 2, 1>, ls::GlobalMaxPooling2D,
                   ls::Dense<3, ls::Exponential>>;

constexpr ls::LSTMOptions lstm_sequences{.return_sequences = true};
constexpr ls::GRUOptions backwards{.return_sequences = true, .go_backwards = true};
constexpr ls::GRUOptions reset_before{.reset_after = false, .use_bias = false};
constexpr ls::Conv1DOptions causal{.padding = ls::Padding::causal, .dilation_rate = 2};
constexpr ls::Pooling1DOptions pools1d{.stride = 2, .padding = ls::Padding::same};

using Words = ls::Sequential<
    ls::Input<8>, ls::Embedding<11, 6>, ls::PositionEmbedding<10>,
    ls::Residual<
        ls::LayerNormalization<>,
        ls::MultiHeadAttention<2, 3, ls::MultiHeadAttentionOptions{.use_causal_mask = true}>>,
    ls::Frozen<ls::Residual<ls::Dense<8, ls::LeakyReLU<20>>, ls::Dense<6>>>,
    ls::SpatialDropout1D<0.2>, ls::Conv1D<6, 3, ls::ReLU6, causal>, ls::ZeroPadding1D<1, 2>,
    ls::Cropping1D<1, 0>, ls::MaxPooling1D<3, pools1d>,
    ls::Bidirectional<ls::LSTM<3, lstm_sequences>>,
    ls::Float32<ls::Recompute<ls::RMSNormalization<>>>, ls::UpSampling1D<2>, ls::GRU<4, backwards>,
    ls::Parallel<
        ls::Concatenate, ls::GlobalAveragePooling1D, ls::GlobalMaxPooling1D,
        ls::GRU<3, reset_before, ls::ELU, ls::HardSigmoid>,
        ls::Bidirectional<ls::SimpleRNN<2, ls::SimpleRNNOptions{}, ls::ReLU>, ls::MergeMode::sum>,
        ls::LSTM<2, ls::LSTMOptions{}, ls::Softplus, ls::HardSigmoid>>,
    ls::RepeatVector<3>, ls::AveragePooling1D<2, pools1d>, ls::Normalization<>, ls::Flatten,
    ls::Dense<3>>;
/// Its output is a sequence.
using Tied =
    ls::Sequential<ls::Input<5>,
                   ls::TiedHead<ls::Embedding<7, 4>,
                                ls::CrossAttention<1, 3, ls::Conv1D<4, 1>, ls::MaxPooling1D<2>>>>;

constexpr ls::Conv2DTransposeOptions doubles{.stride = 2, .padding = ls::Padding::same};
constexpr ls::Conv2DTransposeOptions uneven{.stride = ls::Extent2D{2, 3}, .use_bias = false};
constexpr ls::Conv2DTransposeOptions gaps{.stride = 3, .padding = ls::Padding::same};
constexpr ls::GroupNormalizationOptions only_beta{.scale = false};
/// Larger images from smaller ones: windows that overlap, are cut off, and leave gaps.
using Generator =
    ls::Sequential<ls::Input<3, 4, 3>, ls::Conv2DTranspose<6, 3, ls::ReLU, doubles>,
                   ls::GroupNormalization<3>,
                   ls::Conv2DTranspose<4, ls::Extent2D{5, 4}, ls::Linear, uneven>,
                   ls::GroupNormalization<-1, only_beta>,
                   ls::Conv2DTranspose<2, ls::Extent2D{4, 5}, ls::Tanh, doubles>,
                   ls::Conv2DTranspose<2, 2, ls::Linear, gaps>, ls::AveragePooling2D<6>,
                   ls::Flatten, ls::Slice<0, 24>, ls::GroupNormalization<4>, ls::Dense<5>>;

constexpr ls::Conv3DOptions half_volume{.stride = {1, 2, 2}, .padding = ls::Padding::same};
constexpr ls::Conv3DOptions wide_volume{.dilation_rate = {1, 2, 1}, .groups = 2, .use_bias = false};
constexpr ls::Pooling3DOptions pools3d{.stride = {1, 2, 1}, .padding = ls::Padding::same};
using Volumes = ls::Sequential<
    ls::Input<4, 7, 6, 1>, ls::Conv3D<4, ls::Extent3D{3, 2, 3}, ls::ReLU, half_volume>,
    ls::UpSampling3D<ls::Extent3D{1, 2, 1}>, ls::Conv3D<6, 2, ls::Tanh, wide_volume>,
    ls::MaxPooling3D<2, pools3d>, ls::ZeroPadding3D<ls::Margins3D{1, 0, 2, 1, 0, 1}>,
    ls::AveragePooling3D<ls::Extent3D{3, 2, 1}, pools3d>, ls::Conv3D<3, 1>,
    ls::Parallel<ls::Concatenate, ls::GlobalAveragePooling3D, ls::GlobalMaxPooling3D, ls::Flatten>,
    ls::Dense<5>>;

using Frames = ls::Sequential<ls::SpectralNormalization<ls::Conv2D<3, 2, ls::ReLU>>,
                              ls::MaxPooling2D<>, ls::Flatten>;
using Video = ls::Sequential<ls::Input<4, 5, 6, 2>, ls::TimeDistributed<Frames>,
                             ls::TimeDistributed<ls::SpectralNormalization<ls::Dense<4, ls::Tanh>>>,
                             ls::LSTM<3>, ls::SpectralNormalization<ls::Dense<5>>>;

constexpr ls::EmbeddingOptions masks_zero{.mask_zero = true};
constexpr ls::MultiHeadAttentionOptions masked_causal{.use_bias = false, .use_causal_mask = true};
constexpr ls::SimpleRNNOptions rnn_backwards{.go_backwards = true};
constexpr ls::GRUOptions gru_sequences{.return_sequences = true, .reset_after = false};
using MaskedIds =
    ls::Sequential<ls::Input<9>, ls::Embedding<5, 6, masks_zero>, ls::PositionEmbedding<9>,
                   ls::Residual<ls::MultiHeadAttention<2, 3>>, ls::GroupNormalization<2>,
                   ls::Residual<ls::MultiHeadAttention<1, 4, masked_causal>>, ls::GRU<5, backwards>,
                   ls::Bidirectional<ls::GRU<3, gru_sequences>, ls::MergeMode::mul>,
                   ls::Bidirectional<ls::LSTM<4, lstm_sequences>>, ls::LSTM<6, lstm_sequences>,
                   ls::Parallel<ls::Concatenate, ls::GlobalAveragePooling1D, ls::GlobalMaxPooling1D,
                                ls::LSTM<3, ls::LSTMOptions{}, ls::Softsign, ls::Sigmoid>,
                                ls::SimpleRNN<3, rnn_backwards, ls::Linear>,
                                ls::Bidirectional<ls::GRU<2, reset_before>, ls::MergeMode::ave>,
                                ls::Sequential<ls::Conv1D<3, 1>, ls::LSTM<2>>>,
                   ls::Dense<4>>;
constexpr ls::AttentionOptions concat{.use_scale = true, .score_mode = ls::ScoreMode::concat};
constexpr ls::AdditiveAttentionOptions causal_sums{.use_causal_mask = true};
using MaskedTokens =
    ls::Sequential<ls::Input<7, 3>, ls::ToSequence, ls::Masking<0.25>, ls::Dense<4, ls::ReLU>,
                   ls::Parallel<ls::Add, ls::LSTM<4, lstm_sequences>, ls::Dense<4>>,
                   ls::Dropout<0.5>, ls::CrossAttention<2, 2, ls::Identity, ls::Dense<3>>,
                   ls::Parallel<ls::Maximum, ls::Identity, ls::Dense<4>>,
                   ls::Parallel<ls::Subtract, ls::Identity, ls::Dense<4>>,
                   ls::Parallel<ls::Minimum, ls::Identity, ls::Dense<4>>,
                   ls::Attention<ls::Identity, ls::Dense<4>>,
                   ls::Attention<ls::Identity, ls::Dense<4>, concat>,
                   ls::AdditiveAttention<ls::Identity, ls::Dense<4>, causal_sums>,
                   ls::Attention<ls::Identity, ls::ValueAndKey<ls::Dense<6>, ls::Dense<4>>>,
                   ls::AdditiveAttention<ls::Dense<3>, ls::ValueAndKey<ls::Identity, ls::Dense<3>>>,
                   ls::Bidirectional<ls::SimpleRNN<3>, ls::MergeMode::sum>>;

constexpr ls::MultiHeadAttentionOptions rotary{
    .use_bias = false, .use_causal_mask = true, .sliding_window = 3, .rope_theta = 10};
constexpr ls::MultiHeadAttentionOptions groups_of_values{.value_dim = 3, .num_key_value_heads = 2};
using Llama =
    ls::Sequential<ls::Input<7>, ls::Embedding<5, 6, masks_zero>,
                   ls::Residual<ls::RMSNormalization<>, ls::GroupQueryAttention<4, 4, 2, rotary>>,
                   ls::Residual<ls::SwiGLU<9, 6>>,
                   ls::Residual<ls::MultiHeadAttention<4, 2, groups_of_values>>, ls::Dense<5>>;

// Several inputs and outputs with names, and one layer for two of them.
using In = ls::Inputs<ls::NamedInput<"left", 6, 5, 1>, ls::NamedInput<"right", 6, 5, 1>,
                      ls::NamedInput<"age", 2>, ls::NamedInput<"word", 3>>;
using Tower = ls::Sequential<ls::Conv2D<3, 3, ls::ReLU>, ls::BatchNormalization<>, ls::Flatten,
                             ls::Dense<4, ls::Tanh>>;
template <ls::CategoryOutput Output>
using Categories = ls::CategoryEncoding<5, ls::CategoryEncodingOptions{.output_mode = Output}>;
using Named = ls::Sequential<
    In,
    ls::Parallel<
        ls::Concatenate, ls::Shared<ls::Multiply, Tower, In::Get<"left">, In::Get<"right">>,
        In::Get<"age">,
        ls::Sequential<In::Get<"age">, ls::Discretization<ls::Bins{-0.5, 0.0, 0.4}>>,
        ls::Sequential<In::Get<"age">, ls::Discretization<4>>,
        ls::Sequential<In::Get<"word">, Categories<ls::CategoryOutput::multi_hot>>,
        ls::Sequential<In::Get<"word">, Categories<ls::CategoryOutput::count>>,
        ls::Sequential<In::Get<"word">, Categories<ls::CategoryOutput::one_hot>, ls::Flatten>,
        ls::Frozen<
            ls::Shared<ls::Average, ls::Dense<3>, ls::Sequential<In::Get<"age">, ls::Dense<4>>,
                       ls::Sequential<In::Get<"word">, ls::Dense<4>>>>,
        ls::Sequential<In::Get<"word">, ls::Embedding<5, 2>, ls::LSTM<3>>,
        ls::Parallel<ls::Dot<>, ls::Sequential<In::Get<"age">, ls::Dense<4>>,
                     ls::Sequential<In::Get<"right">, ls::Conv2D<1, 5>, ls::Flatten,
                                    ls::Slice<0, 2>, ls::Dense<4>>>,
        ls::Shared<ls::Dot<ls::DotOptions{.normalize = true}>, ls::Dense<5>,
                   ls::Sequential<In::Get<"age">, ls::Dense<4>>,
                   ls::Sequential<In::Get<"word">, ls::Dense<4>>>>,
    ls::Dense<6, ls::ReLU>,
    ls::Outputs<ls::NamedOutput<"same", ls::Dense<1>, ls::Activation<ls::Sigmoid>>,
                ls::NamedOutput<"price", ls::Dense<3>>>>;

/// Its kernels are written as int8, a shared one once; the last one is too small.
using Wide = ls::Sequential<
    ls::Input<9>, ls::Embedding<11, 32>,
    ls::Residual<ls::MultiHeadAttention<4, 16, ls::MultiHeadAttentionOptions{.value_dim = 24}>>,
    ls::Shared<ls::Add, ls::Dense<64>, ls::Identity, ls::Dense<32, ls::Tanh>>, ls::Flatten,
    ls::Slice<0, 20>, ls::Dense<3>>;
constexpr ls::MultiHeadAttentionOptions sees_earlier{.use_causal_mask = true};
using TiedWide =
    ls::Sequential<ls::Input<9>, ls::TiedHead<ls::Embedding<11, 32>, ls::Dense<32, ls::Tanh>,
                                              ls::MultiHeadAttention<2, 16, sees_earlier>,
                                              ls::MultiHeadAttention<2, 16, sees_earlier>,
                                              ls::LayerNormalization<>>>;
/// Units of a kernel, or rows of a table, that is written so, else 0.
std::size_t units_of_wide(const std::string& name, std::size_t size) {
  if (name.ends_with("/embeddings")) return size / 32;
  if (!name.ends_with("/kernel") || size == 20 * 3) return 0;
  return name.ends_with("attention_output/kernel") ? 32 : size / 32;
}
/// Rounds those, as the file has them. Returns how many there are.
std::size_t round_wide(std::vector<ls::Weight<float>>& weights) {
  std::size_t count = 0;
  for (auto& weight : weights) {
    const std::size_t size = weight.values.size(), units = units_of_wide(weight.name, size);
    if (units == 0) continue;
    ++count;
    const std::size_t inputs = size / units;
    const bool is_table = weight.name.ends_with("/embeddings");
    for (std::size_t unit = 0; unit < units; ++unit) {
      const auto value = [&](std::size_t i) -> float& {
        return weight.values[is_table ? unit * inputs + i : i * units + unit];
      };
      float largest = 0;
      for (std::size_t i = 0; i < inputs; ++i) largest = std::max(largest, std::abs(value(i)));
      for (std::size_t i = 0; i < inputs; ++i)
        value(i) = std::nearbyint(value(i) * (127 / largest)) * (largest / 127);
    }
  }
  return count;
}

/// "Gemm Relu Gemm", and the bytes of the initializers.
struct Parsed {
  std::string ops;
  std::vector<std::string> initializers;
};
Parsed parse(const std::string& path) {
  Parsed parsed;
  const auto bytes = ls::read_file(path);
  for (ls::detail::ProtoReader model(*bytes); model.next();)
    if (model.field() == 7)
      for (ls::detail::ProtoReader graph(model.bytes()); graph.next();) {
        const auto text = [](std::span<const std::byte> value) {
          return std::string(reinterpret_cast<const char*>(value.data()), value.size());
        };
        if (graph.field() == 1)
          for (ls::detail::ProtoReader node(graph.bytes()); node.next();)
            if (node.field() == 4)
              parsed.ops += (parsed.ops.empty() ? "" : " ") + text(node.bytes());
        if (graph.field() == 5)
          for (ls::detail::ProtoReader tensor(graph.bytes()); tensor.next();)
            if (tensor.field() == 8) parsed.initializers.push_back(text(tensor.bytes()));
      }
  return parsed;
}

}  // namespace

TEST_CASE("export_onnx: a node for each layer, images are turned only where they must be") {
  const TemporaryFolder folder;
  const std::string path = folder.path("models/net.onnx");
  ls::OneDeviceStrategy alone;
  using Net = ls::Sequential<ls::Input<5, 5, 1>, ls::Conv2D<2, 3, ls::ReLU>, ls::MaxPooling2D<>,
                             ls::Flatten, ls::Dense<3>>;
  auto model = ls::compile<Net>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  ls::export_onnx(model, path);
  const Parsed parsed = parse(path);
  CHECK(parsed.ops == "Transpose Conv Relu MaxPool Transpose Reshape Gemm Identity");
  CHECK(parsed.initializers == std::vector<std::string>{"conv2d/kernel", "conv2d/bias", "shape_0",
                                                        "dense/kernel", "dense/bias"});
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { ls::export_onnx(model, path, {.input = "y"}); }),
      "input and output need two different names"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { ls::export_onnx(model, path, {.output = "dense/kernel"}); }),
                 "'dense/kernel' is the name of an input or an output, and of a value"));
  using Clash = ls::Sequential<ls::Inputs<ls::NamedInput<"a", 2>>,
                               ls::Outputs<ls::NamedOutput<"a", ls::Dense<2>>>>;
  auto clash = ls::compile<Clash>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  CHECK(message_of<ls::ConfigurationError>([&] { ls::export_onnx(clash, path); }) ==
        "export_onnx: inputs and outputs need names that differ, got 'a' twice");
  CHECK(contains(message_of<ls::Error>([&] { ls::export_onnx(model, "/dev/null/net.onnx"); }),
                 "/dev/null"));
}

TEST_SUITE("ONNX in Python [needs python]") {
  TEST_CASE("export_onnx: onnxruntime gives the outputs of predict") {
    if (!has_python_modules("models in onnxruntime", "numpy, onnxruntime")) return;
    const TemporaryFolder folder;
    ls::OneDeviceStrategy alone;
    std::vector<ls::SavedArray> data;
    const auto put = [&](const std::string& name, const RowMatrix& values) {
      const auto bytes =
          std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
      data.push_back({.name = name,
                      .extents = {static_cast<std::uint64_t>(values.rows()),
                                  static_cast<std::uint64_t>(values.cols())},
                      .bytes = {bytes.begin(), bytes.end()}});
    };
    const auto write = [&](auto& model, const std::string& name, Eigen::Index inputs, float ids = 0,
                           bool masked = false) {
      shake(model);
      RowMatrix x = random_matrix(7, inputs, 5);
      if (ids > 0) x = ((x.array() + 1) / 2 * ids).floor();
      if (masked) {  // no token counts; only the last ones; only the first ones; every third
        const Eigen::Index tokens = ids > 0 ? inputs : 7, features = inputs / tokens;
        const auto hide = [&](Eigen::Index row, Eigen::Index token) {
          x.row(row).segment(token * features, features).setConstant(ids > 0 ? 0.0F : 0.25F);
        };
        for (Eigen::Index token = 0; token < tokens; ++token) {
          hide(1, token);
          if (token < 4) hide(2, token);
          if (token > 3) hide(3, token);
          if (token % 3 != 0) hide(4, token);
        }
      }
      put((name + "_x").c_str(), x);
      put((name + "_y").c_str(), model.predict(x));
      ls::export_onnx(model, folder.path(name + ".onnx"),
                      {.input = "samples", .output = "outputs"});
    };
    auto images = ls::compile<Images>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
    write(images, "images", 9 * 8 * 2);
    auto flat = ls::compile<Flat>(alone, {.seed = 2}, ls::MeanSquaredError{}, ls::SGD{});
    write(flat, "flat", 6);
    auto words = ls::compile<Words>(alone, {.seed = 3}, ls::MeanSquaredError{}, ls::SGD{});
    write(words, "words", 8, 11);
    auto tied = ls::compile<Tied>(alone, {.seed = 4}, ls::MeanSquaredError{}, ls::SGD{});
    write(tied, "tied", 5, 7);
    auto generator = ls::compile<Generator>(alone, {.seed = 5}, ls::MeanSquaredError{}, ls::SGD{});
    write(generator, "generator", 3 * 4 * 3);
    auto volumes = ls::compile<Volumes>(alone, {.seed = 10}, ls::MeanSquaredError{}, ls::SGD{});
    write(volumes, "volumes", 4 * 7 * 6);
    auto video = ls::compile<Video>(alone, {.seed = 11}, ls::MeanSquaredError{}, ls::SGD{});
    write(video, "video", 4 * 5 * 6 * 2);
    auto masked_ids = ls::compile<MaskedIds>(alone, {.seed = 6}, ls::MeanSquaredError{}, ls::SGD{});
    write(masked_ids, "masked_ids", 9, 5, true);
    auto masked_tokens =
        ls::compile<MaskedTokens>(alone, {.seed = 7}, ls::MeanSquaredError{}, ls::SGD{});
    write(masked_tokens, "masked_tokens", 7 * 3, 0, true);
    auto llama = ls::compile<Llama>(alone, {.seed = 8}, ls::MeanSquaredError{}, ls::SGD{});
    write(llama, "llama", 7, 5, true);
    auto named = ls::compile<Named>(alone, {.seed = 9}, ls::MeanSquaredError{}, ls::SGD{});
    shake(named);
    RowMatrix inputs = random_matrix(7, 65, 5);
    inputs.rightCols(3) = ((inputs.rightCols(3).array() + 1) / 2 * 5).floor();
    put("named_x", inputs);
    put("named_y", named.predict(inputs));
    ls::export_onnx(named, folder.path("named.onnx"));
    const auto write_rounded = [&]<class Net>(std::type_identity<Net>, const std::string& name,
                                              std::size_t arrays) {
      auto whole = ls::compile<Net>(alone, {.seed = 10}, ls::MeanSquaredError{}, ls::SGD{});
      auto rounded = ls::compile<Net>(alone, {.seed = 10}, ls::MeanSquaredError{}, ls::SGD{});
      write(whole, "whole_" + name, 9, 11);
      rounded.set_weights(whole.get_weights());
      ls::export_onnx(rounded, folder.path(name + ".onnx"),
                      {.input = "samples", .output = "outputs", .int8_weights = true});
      const RowMatrix ids = ((random_matrix(7, 9, 5).array() + 1) / 2 * 11).floor();
      auto weights = rounded.get_weights();
      CHECK(round_wide(weights) == arrays);
      rounded.set_weights(weights);
      put(name + "_x", ids);
      put(name + "_y", rounded.predict(ids));
    };
    write_rounded(std::type_identity<Wide>(), "rounded", 7);
    write_rounded(std::type_identity<TiedWide>(), "rounded_tied", 10);
    CHECK(std::filesystem::file_size(folder.path("rounded.onnx")) <
          std::filesystem::file_size(folder.path("whole_rounded.onnx")) * 40 / 100);
    const Parsed tied_parsed = parse(folder.path("rounded_tied.onnx"));
    CHECK(std::count_if(tied_parsed.initializers.begin(), tied_parsed.initializers.end(),
                        [](const std::string& i) { return i.starts_with("visible_"); }) == 1);
    const Parsed parsed = parse(folder.path("named.onnx"));
    CHECK(std::count(parsed.initializers.begin(), parsed.initializers.end(),
                     "parallel/shared/sequential/dense/kernel") == 1);
    ls::write_file_atomically(folder.path("data.npz"), ls::encode_npz(data));

    const Finished finished = run_python(R"py(
import sys, numpy as np, onnxruntime
data = np.load(sys.argv[1] + "/data.npz")
for name, shape in (("images", (9, 8, 2)), ("flat", (6,)), ("words", (8,)), ("tied", (5,)),
                    ("generator", (3, 4, 3)),
                    ("volumes", (4, 7, 6, 1)), ("video", (4, 5, 6, 2)), ("masked_ids", (9,)), ("masked_tokens", (7, 3)), ("llama", (7,)),
                    ("rounded", (9,)), ("rounded_tied", (9,))):
    options = onnxruntime.SessionOptions()
    if name.startswith("rounded"):  # above this level, its products are of int8 themselves
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(sys.argv[1] + "/" + name + ".onnx", options, providers=["CPUExecutionProvider"])
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, y.name) == ("samples", "outputs") and x.shape == ["batch", *shape], (x.name, x.shape)
    got, = session.run(None, {"samples": data[name + "_x"].reshape(-1, *shape)})
    expected = data[name + "_y"]
    assert name != "tied" or got.shape == (7, 5, 7), got.shape
    got = got.reshape(expected.shape)
    error = np.abs(got - expected).max()
    print(name, error, np.abs(expected).max(), expected.std(axis=0).min())
    assert error < 1e-5 * max(1, np.abs(expected).max()) and expected.std(axis=0).min() > 1e-3, error
for name in ("rounded", "rounded_tied"):
    session = onnxruntime.InferenceSession(sys.argv[1] + "/" + name + ".onnx", providers=["CPUExecutionProvider"])
    expected = data[name + "_y"]
    got = session.run(None, {"samples": data[name + "_x"]})[0].reshape(expected.shape)
    assert np.abs(got - expected).max() < 0.05 * np.abs(expected).max()
session = onnxruntime.InferenceSession(sys.argv[1] + "/named.onnx", providers=["CPUExecutionProvider"])
x, expected = data["named_x"], data["named_y"]
assert [(i.name, i.shape) for i in session.get_inputs()] == [("left", ["batch", 6, 5, 1]), ("right", ["batch", 6, 5, 1]),
                                                             ("age", ["batch", 2]), ("word", ["batch", 3])]
assert [(o.name, o.shape) for o in session.get_outputs()] == [("same", ["batch", 1]), ("price", ["batch", 3])]
same, price = session.run(["same", "price"], {"left": x[:, :30].reshape(-1, 6, 5, 1), "right": x[:, 30:60].reshape(-1, 6, 5, 1),
                                              "age": x[:, 60:62], "word": x[:, 62:]})
error = np.abs(np.concatenate([same, price], axis=1) - expected).max()
print("named", error, expected.std(axis=0))
assert error < 1e-5 * max(1, np.abs(expected).max()) and expected.std(axis=0).min() > 1e-3, error
)py",
                                         {folder.path()});
    CHECK_MESSAGE(finished.exit_code == 0, finished.output);
  }
}
