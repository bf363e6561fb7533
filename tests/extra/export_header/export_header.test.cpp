// Models as headers of plain C++17: what a compiler makes of them computes what predict does.
#include "lockstep/extra/export_header/export_header.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/inputs_outputs.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/shared.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/exported_models.hpp"
#include "support/model_testing.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::Conv2DOptions half{.stride = 2, .padding = ls::Padding::same};
constexpr ls::Conv2DOptions wide{
    .padding = ls::Padding::same, .dilation_rate = 2, .use_bias = false};
constexpr ls::DepthwiseConv2DOptions depthwise{.padding = ls::Padding::same, .depth_multiplier = 2};
constexpr ls::PoolingOptions pools{.stride = 2, .padding = ls::Padding::same};
constexpr ls::BatchNormalizationOptions no_scale{.scale = false};

using Images =
    ls::Sequential<ls::Input<9, 8, 2>, ls::Rescaling<0.5, 0.25>, ls::Conv2D<6, 3, ls::ReLU, half>,
                   ls::BatchNormalization<>, ls::DepthwiseConv2D<3, ls::SiLU, depthwise>,
                   ls::Conv2D<9, 1>, ls::BatchNormalization<ls::ReLU>,
                   ls::MaxPooling2D<ls::Extent2D{3, 2}, pools>, ls::AveragePooling2D<2, pools>,
                   ls::LayerNormalization<>, ls::Conv2D<4, 3, ls::Linear, wide>,
                   ls::BatchNormalization<ls::GELU>, ls::Flatten, ls::Dense<5>, ls::Softmax>;
using Pooled =
    ls::Sequential<ls::Input<4, 5, 3>, ls::Conv2D<4, 2, ls::Tanh>, ls::GlobalAveragePooling2D,
                   ls::Reshape<2, 2, 1>, ls::GlobalMaxPooling2D, ls::Dense<2>>;

using Features =
    ls::Sequential<ls::Dense<4, ls::Mish>, ls::BatchNormalization<ls::Linear, no_scale>>;
using Flat = ls::Sequential<ls::Input<6>, ls::Normalization<>, ls::Dense<5, ls::SELU>,
                            ls::BatchNormalization<ls::Softplus>, ls::Frozen<Features>,
                            ls::Repeat<2, ls::Recompute<ls::Dense<4, ls::HardSiLU>>>,
                            ls::Recompute<ls::Dropout<0.5>>, ls::Float32<ls::Dense<300, ls::ReLU6>>,
                            ls::Dense<3, ls::Exponential>>;
using Functions =
    ls::Sequential<ls::Input<6>, ls::Dense<8, ls::GELUTanh>, ls::Dense<8, ls::Softsign>,
                   ls::Dense<8, ls::ELU>, ls::Dense<8, ls::LeakyReLU<20>>,
                   ls::Dense<8, ls::HardSigmoid>, ls::Dense<9, ls::Sigmoid>>;

constexpr ls::LSTMOptions lstm_sequences{.return_sequences = true};
constexpr ls::LSTMOptions lstm_backwards{.go_backwards = true, .use_bias = false};
constexpr ls::GRUOptions gru_backwards{.return_sequences = true, .go_backwards = true};
constexpr ls::GRUOptions reset_before{.return_sequences = true, .reset_after = false};
constexpr ls::SimpleRNNOptions rnn_sequences{.return_sequences = true};
constexpr ls::Conv1DOptions causal{.padding = ls::Padding::causal, .dilation_rate = 2};
constexpr ls::Pooling1DOptions pools1d{.stride = 2, .padding = ls::Padding::same};

using Words =
    ls::Sequential<ls::Input<8>, ls::Embedding<11, 6>, ls::SpatialDropout1D<0.2>,
                   ls::Conv1D<6, 3, ls::ReLU, causal>, ls::MaxPooling1D<3, pools1d>,
                   ls::LSTM<5, lstm_sequences>, ls::Dense<4, ls::Tanh>, ls::LayerNormalization<>,
                   ls::GRU<4, gru_backwards>, ls::GRU<3, reset_before, ls::ELU, ls::HardSigmoid>,
                   ls::GlobalMaxPooling1D, ls::Dense<3>>;
/// Its output is a sequence.
using Tokens = ls::Sequential<ls::Input<6, 3>, ls::ToSequence, ls::SimpleRNN<4, rnn_sequences>,
                              ls::AveragePooling1D<2>, ls::Dense<2>, ls::Softmax>;
using Last =
    ls::Sequential<ls::Input<6, 3>, ls::ToSequence, ls::LSTM<3, lstm_backwards>, ls::Dense<2>>;

constexpr ls::Conv2DOptions same{.padding = ls::Padding::same};
/// Residual blocks, one in another, and branches that join and multiply.
using Blocks = ls::Sequential<
    ls::Input<6, 5, 2>, ls::Conv2D<4, 3, ls::Linear, same>,
    ls::Residual<ls::BatchNormalization<ls::ReLU>, ls::Conv2D<4, 3, ls::Linear, same>,
                 ls::Residual<ls::Conv2D<4, 1, ls::Tanh>>, ls::BatchNormalization<>>,
    ls::Activation<ls::ReLU>, ls::BatchNormalization<>,
    ls::Residual<
        ls::Sequential<ls::Conv2D<3, 3, ls::ReLU, half>, ls::Conv2D<3, 3, ls::Linear, same>>,
        ls::Sequential<ls::Conv2D<3, 1, ls::Linear, half>>>,
    ls::Parallel<ls::Concatenate, ls::Conv2D<2, 1>, ls::Identity,
                 ls::Parallel<ls::Multiply, ls::Activation<ls::Tanh>, ls::Conv2D<3, 1>>>,
    ls::Flatten, ls::Parallel<ls::Average, ls::Dense<4>, ls::Dense<4, ls::ReLU>, ls::Slice<3, 4>>,
    ls::Dense<3>>;
using Steps = ls::Sequential<
    ls::Input<6, 3>, ls::ToSequence,
    ls::Residual<ls::LayerNormalization<>, ls::Dense<5, ls::ReLU>, ls::Dense<3>>,
    ls::Parallel<ls::Concatenate, ls::LSTM<2, lstm_sequences>, ls::Identity, ls::Slice<1, 2>>,
    ls::GlobalAveragePooling1D, ls::Dense<2>>;
using In = ls::Inputs<ls::NamedInput<"left", 4, 3, 1>, ls::NamedInput<"right", 4, 3, 1>,
                      ls::NamedInput<"age", 2>>;
using Tower = ls::Sequential<ls::Conv2D<3, 2, ls::ReLU>, ls::BatchNormalization<>, ls::Flatten,
                             ls::Dense<4, ls::Tanh>>;
using Siamese = ls::Sequential<
    In,
    ls::Parallel<ls::Concatenate,
                 ls::Shared<ls::Multiply, Tower, In::Get<"left">, In::Get<"right">>,
                 ls::Frozen<ls::Shared<ls::Add, ls::Dense<2>, In::Get<"age">,
                                       ls::Sequential<In::Get<"age">, ls::Dense<2>>>>>,
    ls::Outputs<ls::NamedOutput<"same", ls::Dense<1>, ls::Activation<ls::Sigmoid>>,
                ls::NamedOutput<"price", ls::Dense<2>>>>;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr std::string_view program = R"(#include "net.hpp"
#include <cstdio>
int main(int, char** files) {
  std::FILE* in = std::fopen(files[1], "rb");
  std::FILE* out = std::fopen(files[2], "wb");
  static float x[net::inputs], y[net::outputs];
  while (std::fread(x, sizeof x, 1, in) == 1) {
    net::predict(x, y);
    std::fwrite(y, sizeof y, 1, out);
  }
  return std::fclose(in) + std::fclose(out);
}
)";

/// What the shell says to the command in this folder.
Finished in_folder(const TemporaryFolder& folder, const std::string& command) {
  return run_process({"/bin/sh", "-c", "cd " + folder.path() + " && " + command});
}

template <class Net>
void check_exported(const std::string& name, Eigen::Index inputs, float ids = 0) {
  CAPTURE(name);
  const TemporaryFolder folder;
  ls::OneDeviceStrategy alone;
  auto model = ls::compile<Net>(alone, {.seed = 1}, ls::MeanSquaredError{}, ls::SGD{});
  shake(model);
  RowMatrix x = random_matrix(7, inputs, 5);
  if (ids > 0) x = ((x.array() + 1) / 2 * ids).floor();
  const RowMatrix expected = model.predict(x);
  ls::export_header(model, folder.path("net.hpp"));
  std::ofstream(folder.path("main.cpp")) << program;
  std::ofstream(folder.path("x"), std::ios::binary)
      .write(reinterpret_cast<const char*>(x.data()),
             static_cast<std::streamsize>(x.size() * Eigen::Index{sizeof(float)}));
  const Finished finished = in_folder(folder,
                                      "c++ -std=c++17 -O1 -pedantic -Wall -Wextra -Wshadow -Werror "
                                      "main.cpp -o net && ./net x y");
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  RowMatrix got(expected.rows(), expected.cols());
  std::ifstream results(folder.path("y"), std::ios::binary);
  results.read(reinterpret_cast<char*>(got.data()),
               static_cast<std::streamsize>(got.size() * Eigen::Index{sizeof(float)}));
  REQUIRE(results.gcount() ==
          static_cast<std::streamsize>(got.size() * Eigen::Index{sizeof(float)}));
  const float scale = expected.cwiseAbs().maxCoeff();
  const float error = (got - expected).cwiseAbs().maxCoeff() / scale;
  CAPTURE(error);
  CHECK(error < 1e-6F);
  CHECK((expected.rowwise() - expected.colwise().mean()).cwiseAbs().maxCoeff() > 1e-3F * scale);
}

}  // namespace

TEST_CASE("export_header: a header with the sizes, constants and a call for each layer") {
  const TemporaryFolder folder;
  using Net = ls::Sequential<ls::Input<5, 5, 1>, ls::Conv2D<2, 3>, ls::BatchNormalization<ls::ReLU>,
                             ls::Flatten, ls::Dense<3>>;
  auto model = ls::compile<Net>(ls::MeanSquaredError{}, ls::SGD{});
  const std::string path = folder.path("digits.hpp");
  ls::export_header(model, path, {.name = "digits"});
  const std::string text = text_of(path);
  CHECK(contains(text, "namespace digits {\n\nconstexpr int inputs = 25, outputs = 3;\n"));
  CHECK(contains(text, "// Constants: " + std::to_string((18 + 2 + 54 + 3) * 4) + " bytes."));
  // The normalisation is part of the convolution's weights.
  CHECK(contains(text, R"(
  detail::convolution<detail::Window<5, 5, 3, 3, 1, 1, 1, 1, 0, 0, 3, 3>, 1, 2>(x, detail::kernel_0, detail::bias_1, a);
  detail::map<18, detail::relu>(a, a);
  detail::dense<18, 3>(a, detail::kernel_2, detail::bias_3, b);
  detail::map<outputs, detail::linear>(b, y);
)"));
}

TEST_CASE("export_header: what cannot be written is refused by name") {
  const TemporaryFolder folder;
  auto model =
      ls::compile<ls::Sequential<ls::Input<2>, ls::Dense<1>>>(ls::MeanSquaredError{}, ls::SGD{});
  const std::string path = folder.path("net.hpp");
  for (const char* const name : {"", "1net", "my net", "a::b"})
    CHECK(contains(
        message_of<ls::ConfigurationError>([&] { ls::export_header(model, path, {.name = name}); }),
        ".name must be a name of C++"));
  CHECK(contains(message_of<ls::Error>([&] { ls::export_header(model, "/dev/null/net.hpp"); }),
                 "/dev/null"));
  auto weights = model.get_weights();
  weights[0].values[1] = std::numeric_limits<float>::infinity();
  model.set_weights(weights);
  CHECK(contains(message_of<ls::Error>([&] { ls::export_header(model, path); }),
                 "'kernel' has a value that is no finite number"));
}

TEST_CASE("export_header: compiled, it gives the outputs of predict") {
  check_exported<Images>("images", 9 * 8 * 2);
  check_exported<Pooled>("pooled", 4 * 5 * 3);
  check_exported<Flat>("flat", 6);
  check_exported<Functions>("functions", 6);
  check_exported<Words>("words", 8, 11);
  check_exported<Tokens>("tokens", 6 * 3);
  check_exported<Last>("last", 6 * 3);
  check_exported<Blocks>("blocks", 6 * 5 * 2);
  check_exported<Steps>("steps", 6 * 3);
  check_exported<Siamese>("siamese", 26);
}

TEST_CASE("export_header: other machines compile it, too") {
  const TemporaryFolder folder;
  auto images = ls::compile<Images>(ls::MeanSquaredError{}, ls::SGD{});
  auto words = ls::compile<Words>(ls::MeanSquaredError{}, ls::SGD{});
  ls::export_header(images, folder.path("images.hpp"), {.name = "images"});
  ls::export_header(words, folder.path("words.hpp"), {.name = "words"});
  std::ofstream(folder.path("both.cpp"))
      << "#include \"images.hpp\"\n#include \"words.hpp\"\n"
         "void run(const float* x, float* y) { images::predict(x, y); words::predict(x, y); }\n";
  // (What it needs of <cmath>, as no library for WebAssembly is there.)
  std::ofstream(folder.path("cmath"))
      << "#define INFINITY __builtin_inff()\nnamespace std {\nfloat exp(float);\n"
         "float tanh(float);\nfloat expm1(float);\nfloat log1p(float);\nfloat fabs(float);\n"
         "float erf(float);\nfloat sqrt(float);\n}\n";
  for (const std::string compiler :
       {"aarch64-linux-gnu-g++", "clang++ --target=wasm32-unknown-unknown -nostdinc++ -I."}) {
    CAPTURE(compiler);
    const std::string name = compiler.substr(0, compiler.find(' '));
    if (in_folder(folder, "command -v " + name).exit_code != 0) {
      skip("a header for another machine", name);
      continue;
    }
    const Finished finished =
        in_folder(folder, compiler + " -std=c++17 -O1 -Wall -Wextra -Werror -c both.cpp -o both.o");
    CHECK_MESSAGE(finished.exit_code == 0, finished.output);
  }
}
