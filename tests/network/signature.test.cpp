#include "lockstep/network/signature.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "lockstep/layers.hpp"
#include "lockstep/network.hpp"
#include "support/model_testing.hpp"

using namespace lockstep;

namespace {

template <class... Layers>
using Net = Sequential<Input<8, 8>, Reshape<8, 8, 1>, Layers...>;

constexpr Conv2DOptions half{.stride = 2, .padding = Padding::same};
constexpr Initializer tiny = [](RandomStream& random, Fans) { return random.uniform(-0.1, 0.1); };

/// Of all of them, no two are alike.
template <class... Layers>
constexpr bool differ() {
  std::array all{signature<Layers>...};
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

/// Layers of a program's own.
template <std::size_t Kernel, class Function>
struct Own {
  static constexpr std::string_view name = "own";
  template <class In>
  using Output = In;
};
template <std::size_t Rows>
struct Scale {
  static constexpr std::string_view name = "scale";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::array variables{Variable{"factor", {Rows, In::size}, ones}};
};
template <auto Begin, template <class> class Policy>
struct Odd {
  static constexpr std::string_view name = "odd";
  static constexpr std::uint64_t signature = 17 + Begin;
};
struct OneVariable {
  static constexpr std::string_view name = "scale";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::array variables{Variable{"factor", {In::size}, ones}};
  template <class In, class T>
  static void forward(const ForwardPass<T>&) {}
  template <class In, class T>
  static void backward(const BackwardPass<T>&) {}
};
struct TwoDimensions : OneVariable {
  template <class In>
  static constexpr std::array variables{Variable{"factor", {1, In::size}, ones}};
};
struct OtherStart : OneVariable {
  template <class In>
  static constexpr std::array variables{Variable{"factor", {In::size}, zeros}};
};

}  // namespace

TEST_SUITE("signature") {
  // Committed numbers, which g++ and clang++ agree on. One that changes breaks those of users: then
  // CHANGELOG says so.
  static_assert(signature<Net<Conv2D<4, 3, ReLU>, Flatten, Dense<10>>> == 0x79ab90f0a77f0bbe);
  static_assert(signature<Bidirectional<LSTM<64>>> == 0xe35a5e47373708d5);
  static_assert(signature<MultiHeadAttention<4, 8>> == 0x8c0ff01a849f4a3d);
  static_assert(signature<Parallel<Concatenate, Dense<4>, BatchNormalization<>>> ==
                0x424c83cd379a24fa);

  TEST_CASE("any change of a model changes it") {
    CHECK(
        differ<Net<Conv2D<4, 3, ReLU>, Flatten, Dense<10>>,  //
               Net<Conv2D<5, 3, ReLU>, Flatten, Dense<10>>,  // filters
               Net<Conv2D<4, 2, ReLU>, Flatten, Dense<10>>,  // kernel
               Net<Conv2D<4, 3, Tanh>, Flatten, Dense<10>>,  // activation
               Net<Conv2D<4, 3>, Activation<ReLU>, Flatten, Dense<10>>,
               Net<Conv2D<4, 3, ReLU, half>, Flatten, Dense<10>>,  // options
               Net<Conv2D<4, 3, ReLU>, Dropout<0.5>, Flatten, Dense<10>>,
               Net<Conv2D<4, 3, ReLU>, Dropout<0.25>, Flatten, Dense<10>>,
               Net<Dropout<0.5>, Conv2D<4, 3, ReLU>, Flatten, Dense<10>>,  // order
               Net<Conv2D<4, 3, ReLU>, Flatten, Frozen<Dense<10>>>,
               Net<Conv2D<4, 3, ReLU>, Sequential<Flatten, Dense<10>>>,
               Net<Sequential<Conv2D<4, 3, ReLU>, Flatten>, Dense<10>>,
               Sequential<Input<64>, Reshape<8, 8, 1>, Conv2D<4, 3, ReLU>, Flatten, Dense<10>>>());
  }

  TEST_CASE("each option counts") {
    CHECK(differ<Dense<3>, Dense<3, Linear, DenseOptions{.use_bias = false}>,
                 Dense<3, Linear, DenseOptions{.kernel_initializer = he_normal}>,
                 Dense<3, Linear, DenseOptions{.bias_initializer = he_normal}>,
                 Dense<3, Linear, DenseOptions{.kernel_initializer = RandomNormal{.stddev = 0.02}}>,
                 Dense<3, Linear, DenseOptions{.kernel_initializer = RandomNormal{.stddev = 0.03}}>,
                 Dense<3, Linear, DenseOptions{.kernel_initializer = RandomUniform{0, 0.02}}>,
                 Dense<3, Linear, DenseOptions{.kernel_initializer = tiny}>,
                 Dense<3, Linear, DenseOptions{.kernel_regularizer = L2{1e-4}}>,
                 Dense<3, Linear, DenseOptions{.kernel_regularizer = L1{1e-4}}>,
                 Dense<3, Linear, DenseOptions{.kernel_constraint = MaxNorm{3}}>,
                 Dense<3, Linear, DenseOptions{.bias_constraint = MaxNorm{3}}>>());
    CHECK(differ<LSTM<4>, LSTM<4, LSTMOptions{.return_sequences = true}>,
                 LSTM<4, LSTMOptions{.unit_forget_bias = false}>, LSTM<4, LSTMOptions{}, ReLU>,
                 LSTM<4, LSTMOptions{}, Tanh, HardSigmoid>,
                 LSTM<4, LSTMOptions{.bias_constraint = NonNeg{}}>, GRU<4>,
                 GRU<4, GRUOptions{.reset_after = false}>, SimpleRNN<4>,
                 SimpleRNN<4, SimpleRNNOptions{}, ReLU>, Bidirectional<LSTM<4>>,
                 Bidirectional<LSTM<4>, MergeMode::sum>>());
    CHECK(
        differ<BatchNormalization<>, BatchNormalization<ReLU>,
               BatchNormalization<Linear, BatchNormalizationOptions{.momentum = 0.9}>,
               LayerNormalization<>, LayerNormalization<LayerNormalizationOptions{.epsilon = 1e-5}>,
               GroupNormalization<>, GroupNormalization<16>, RMSNormalization<>>());
    CHECK(differ<MaxPooling2D<2>, AveragePooling2D<2>, MaxPooling2D<Extent2D{2, 3}>,
                 MaxPooling2D<2, PoolingOptions{.padding = Padding::same}>, ZeroPadding2D<1>,
                 ZeroPadding2D<Margins2D{1, 1, 1, 2}>, Cropping2D<1>, UpSampling2D<2>, Masking<>,
                 Masking<1.0>, Rescaling<0.5>, Rescaling<0.25>, GaussianNoise<0.5>,
                 GaussianDropout<0.5>, ActivityRegularization<L2{1e-3}>,
                 ActivityRegularization<L1{1e-3}>, Slice<0, 4>, Slice<4, 4>, Permute<2, 1>,
                 Permute<1, 2>>());
    CHECK(differ<
          Conv2DTranspose<3, 3>, SeparableConv2D<3, 3>, Conv2D<3, 3>, Conv1D<3, 3>,
          Conv2DTranspose<3, 3, Linear, Conv2DTransposeOptions{.stride = 2, .output_padding = 1}>,
          Conv2DTranspose<3, 3, Linear, Conv2DTransposeOptions{.stride = 2, .output_padding = 0}>,
          Conv2DTranspose<3, 3, Linear, Conv2DTransposeOptions{.stride = 2}>, DepthwiseConv2D<3>,
          DepthwiseConv2D<3, Linear, DepthwiseConv2DOptions{.depth_multiplier = 2}>>());
    CHECK(differ<Parallel<Add, Dense<4>, Dense<4>>, Parallel<Multiply, Dense<4>, Dense<4>>,
                 Parallel<Concatenate, Dense<4>, Dense<4>>, Residual<Dense<4>>, Repeat<1, Dense<4>>,
                 Repeat<2, Dense<4>>, TiedHead<Embedding<9, 4>, Dense<4>>,
                 TiedHead<Embedding<9, 4, EmbeddingOptions{.mask_zero = true}>, Dense<4>>,
                 CrossAttention<1, 2, Dense<4>, Dense<4>>, CrossAttention<1, 2, Dense<4>, Dense<5>>,
                 CrossAttention<2, 1, Dense<4>, Dense<4>>, Attention<Dense<4>, Dense<4>>,
                 Attention<Dense<4>, Dense<5>>, AdditiveAttention<Dense<4>, Dense<4>>,
                 Attention<Dense<4>, Dense<4>, AttentionOptions{.use_causal_mask = true}>>());
  }

  TEST_CASE("another spelling of the same model does not") {
    static_assert(signature<Dense<3>> == signature<Dense<3, Linear, DenseOptions{}>>);
    static_assert(signature<Conv2D<3, 3>> == signature<Conv2D<3, Extent2D{3, 3}>>);
    static_assert(signature<Dense<3, Linear, DenseOptions{.kernel_initializer = glorot_uniform}>> ==
                  signature<Dense<3>>);
    static_assert(
        signature<
            Dense<3, Linear,
                  DenseOptions{.kernel_initializer =
                                   VarianceScaling{.mode = FanMode::fan_avg,
                                                   .distribution = Distribution::uniform}}>> ==
        signature<Dense<3>>);
  }

  TEST_CASE("layers of a program's own: name, template arguments, variables, or their number") {
    CHECK(differ<Own<2, ReLU>, Own<3, ReLU>, Own<2, Tanh>, Scale<1>, Scale<2>>());
    static_assert(signature<Odd<1, std::type_identity>> != signature<Odd<2, std::type_identity>>);
    CHECK(differ<Sequential<Input<4>, OneVariable>, Sequential<Input<4>, TwoDimensions>,
                 Sequential<Input<4>, OtherStart>, Sequential<Input<5>, OneVariable>>());
    CHECK(signature<Sequential<Input<4>, lockstep_test::UserDense<3>>> !=
          signature<Sequential<Input<4>, lockstep_test::UserDense<2>>>);
  }
}
