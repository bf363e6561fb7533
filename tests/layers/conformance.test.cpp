// Every layer and activation function of this room satisfies its concept. Here and not in the
// headers, where each program that includes them would pay for the answer again.
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/category_encoding.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/conv2d_transpose.hpp"
#include "lockstep/layers/conv3d.hpp"
#include "lockstep/layers/conv_lstm2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/discretization.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/margins.hpp"
#include "lockstep/layers/masking.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/pooling3d.hpp"
#include "lockstep/layers/rescaling.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/layers/up_sampling.hpp"

namespace lockstep {

static_assert(Layer<Activation<ReLU>, Shape<26, 26, 32>>);
static_assert(Layer<Activation<Tanh>, Shape<3>, double>);
static_assert(Layer<Softmax, Shape<10>>);
static_assert(Layer<Softmax, Shape<4, 3>, double>);
static_assert(ActivationFunction<Linear> && ActivationFunction<Linear, double>);
static_assert(Layer<ActivityRegularization<Regularizer{.l2 = 0.01}>, Shape<4, 5>>);
static_assert(Layer<ActivityRegularization<Regularizer{.l1 = 0.01}>, Shape<3>, double>);
static_assert(Layer<AveragePooling1D<>, Sequence<8, 4>>);
static_assert(Layer<AveragePooling1D<3, Pooling1DOptions{.stride = 2, .padding = Padding::same}>,
                    Sequence<8, 4>, double>);
static_assert(Layer<AveragePooling2D<>, Shape<26, 26, 32>>);
static_assert(
    Layer<AveragePooling2D<Extent2D{3, 2}, PoolingOptions{.stride = 1, .padding = Padding::same}>,
          Shape<2, 2, 1>, double>);
static_assert(Layer<BatchNormalization<>, Shape<26, 26, 32>>);
static_assert(Layer<BatchNormalization<ReLU>, Shape<26, 26, 32>>);
static_assert(
    Layer<
        BatchNormalization<Linear, BatchNormalizationOptions{.scale = false, .synchronized = true}>,
        Shape<10>, double>);
static_assert(Layer<Bidirectional<LSTM<64>>, Sequence<200, 128>>);
static_assert(Layer<Bidirectional<GRU<3>, MergeMode::mul>, Sequence<5, 4>, double>);
static_assert(Layer<Conv1D<32, 3, ReLU>, Sequence<28, 8>>);
static_assert(
    Layer<Conv1D<8, 5, Tanh, Conv1DOptions{.padding = Padding::causal, .dilation_rate = 2}>,
          Sequence<7, 3>, double>);
static_assert(Layer<Conv2D<32, 3, ReLU>, Shape<28, 28, 1>>);
static_assert(Layer<Conv2D<8, Extent2D{1, 5}, Tanh,
                           Conv2DOptions{.stride = {2, 1}, .padding = Padding::same}>,
                    Shape<7, 4, 3>, double>);
static_assert(
    Layer<Conv2D<8, 3, ReLU, Conv2DOptions{.dilation_rate = 2, .groups = 4}>, Shape<7, 7, 12>>);
static_assert(Layer<Conv2DTranspose<8, 3, ReLU>, Shape<7, 7, 32>>);
static_assert(Layer<Conv2DTranspose<1, 4, Tanh,
                                    Conv2DTransposeOptions{.stride = 2, .padding = Padding::same}>,
                    Shape<7, 4, 3>, double>);
static_assert(Layer<Conv3D<8, 3, ReLU>, Shape<8, 9, 7, 2>>);
static_assert(Layer<Conv3D<8, Extent3D{1, 3, 2}, Tanh, Conv3DOptions{.stride = 2}>,
                    Shape<8, 9, 7, 2>, double>);
static_assert(Layer<ConvLSTM2D<4, 3>, Sequence<5, 9, 7, 2>>);
static_assert(Layer<ConvLSTM2D<4, 3, ConvLSTM2DOptions{.return_sequences = true}, ReLU>,
                    Sequence<5, 9, 7, 2>, double>);
static_assert(Layer<MaxPooling3D<>, Shape<8, 9, 7, 2>>);
static_assert(Layer<AveragePooling3D<3, Pooling3DOptions{.padding = Padding::same}>,
                    Shape<2, 9, 7, 2>, double>);
static_assert(Layer<GlobalMaxPooling3D, Shape<8, 9, 7, 2>>);
static_assert(Layer<GlobalAveragePooling3D, Shape<8, 9, 7, 2>, double>);
static_assert(Layer<UpSampling3D<>, Shape<8, 9, 7, 2>>);
static_assert(Layer<ZeroPadding3D<Margins3D{0, 1, 2}>, Shape<8, 9, 7, 2>, double>);
static_assert(Layer<Cropping1D<>, Sequence<8, 4>>);
static_assert(Layer<Cropping1D<2, 0>, Sequence<8, 4>, double>);
static_assert(Layer<Cropping2D<1>, Shape<26, 26, 32>>);
static_assert(Layer<Cropping2D<Margins2D{1, 2, 0, 3}>, Shape<4, 4, 1>, double>);
static_assert(Layer<Dense<10, ReLU>, Shape<128>>);
static_assert(Layer<Dense<1>, Shape<1>, double>);
static_assert(Layer<DepthwiseConv2D<3, ReLU>, Shape<28, 28, 8>>);
static_assert(
    Layer<DepthwiseConv2D<Extent2D{1, 5}, Tanh,
                          DepthwiseConv2DOptions{
                              .stride = 2, .padding = Padding::same, .depth_multiplier = 2}>,
          Shape<7, 4, 3>, double>);
static_assert(Layer<Dropout<0.5>, Shape<26, 26, 32>>);
static_assert(Layer<Dropout<0.0>, Shape<10>, double>);
static_assert(Layer<Embedding<65, 128>, Shape<64>>);
static_assert(Layer<Embedding<10, 3, EmbeddingOptions{.mask_zero = true}>, Shape<1>, double>);
static_assert(Layer<Flatten, Shape<26, 26, 32>>);
static_assert(Layer<Flatten, Shape<10>>);
static_assert(Layer<GaussianDropout<0.5>, Shape<26, 26, 32>>);
static_assert(Layer<GaussianDropout<0.0>, Shape<10>, double>);
static_assert(Layer<GaussianNoise<0.1>, Shape<26, 26, 32>>);
static_assert(Layer<GaussianNoise<0.0>, Shape<10>, double>);
static_assert(ActivationFunction<GELU> && ActivationFunction<GELU, double>);
static_assert(ActivationFunction<GELUTanh> && ActivationFunction<GELUTanh, double>);
static_assert(Layer<GlobalAveragePooling1D, Sequence<8, 4>>);
static_assert(Layer<GlobalAveragePooling1D, Sequence<1, 1>, double>);
static_assert(Layer<GlobalAveragePooling2D, Shape<8, 8, 128>>);
static_assert(Layer<GlobalAveragePooling2D, Shape<1, 3, 2>, double>);
static_assert(Layer<GlobalMaxPooling1D, Sequence<8, 4>>);
static_assert(Layer<GlobalMaxPooling1D, Sequence<1, 1>, double>);
static_assert(Layer<GlobalMaxPooling2D, Shape<8, 8, 128>>);
static_assert(Layer<GlobalMaxPooling2D, Shape<1, 3, 2>, double>);
static_assert(Layer<GroupNormalization<>, Shape<26, 26, 32>>);
static_assert(
    Layer<GroupNormalization<-1, GroupNormalizationOptions{.scale = false}>, Shape<5, 10>, double>);
static_assert(Layer<GRU<64>, Sequence<200, 128>>);
static_assert(Layer<GRU<3, GRUOptions{.return_sequences = true, .reset_after = false}>,
                    Sequence<5, 4>, double>);
static_assert(Layer<Identity, Shape<4, 4, 2>>);
static_assert(Layer<Input<28, 28>, Shape<28, 28>>);
static_assert(Layer<LayerNormalization<>, Shape<26, 26, 32>>);
static_assert(
    Layer<LayerNormalization<LayerNormalizationOptions{.scale = false}>, Shape<10>, double>);
static_assert(Layer<LSTM<64>, Sequence<200, 128>>);
static_assert(
    Layer<LSTM<3, LSTMOptions{.return_sequences = true, .dropout = 0.1}>, Sequence<5, 4>, double>);
static_assert(Layer<Masking<>, Shape<4>>);
static_assert(Layer<Masking<-1.0>, Shape<4>, double>);
static_assert(Layer<MaxPooling1D<>, Sequence<8, 4>>);
static_assert(Layer<MaxPooling1D<3, Pooling1DOptions{.stride = 2, .padding = Padding::same}>,
                    Sequence<8, 4>, double>);
static_assert(Layer<MaxPooling2D<>, Shape<26, 26, 32>>);
static_assert(
    Layer<MaxPooling2D<Extent2D{3, 2}, PoolingOptions{.stride = 1, .padding = Padding::same}>,
          Shape<2, 2, 1>, double>);
static_assert(Layer<MultiHeadAttention<4, 32>, Sequence<64, 128>>);
static_assert(Layer<GroupQueryAttention<32, 4, 2>, Sequence<64, 128>>);
static_assert(
    Layer<MultiHeadAttention<1, 3, MultiHeadAttentionOptions{.value_dim = 2, .dropout = 0.1}>,
          Sequence<5, 4>, double>);
static_assert(Layer<Normalization<>, Shape<26, 26, 3>>);
static_assert(Layer<Normalization<NormalizationOptions{.invert = true}>, Shape<10>, double>);
static_assert(Layer<Permute<2, 1>, Shape<26, 32>>);
static_assert(Layer<Permute<3, 1, 2>, Shape<2, 3, 4>, double>);
static_assert(ActivationFunction<ReLU> && ActivationFunction<ReLU, double>);
static_assert(ActivationFunction<ReLU6> && ActivationFunction<ReLU6, double>);
static_assert(ActivationFunction<LeakyReLU<>> && ActivationFunction<LeakyReLU<>, double>);
static_assert(ActivationFunction<HardSigmoid> && ActivationFunction<HardSigmoid, double>);
static_assert(ActivationFunction<HardSiLU> && ActivationFunction<HardSiLU, double>);
static_assert(ActivationFunction<Softsign> && ActivationFunction<Softsign, double>);
static_assert(Layer<PositionEmbedding<64>, Sequence<64, 128>>);
static_assert(Layer<PositionEmbedding<9>, Sequence<3, 5>, double>);
static_assert(Layer<RepeatVector<4>, Shape<10>>);
static_assert(Layer<RepeatVector<1>, Shape<3>, double>);
static_assert(Layer<Discretization<Bins{0.0, 1.0}>, Shape<28, 28>>);
static_assert(Layer<Discretization<Bins{0.0}>, Shape<10>, double>);
static_assert(Layer<Discretization<10>, Shape<3>>);
static_assert(
    Layer<Discretization<2, DiscretizationOptions{.epsilon = 0.1}>, Sequence<3, 4>, double>);
static_assert(Layer<CategoryEncoding<4>, Shape<2>>);
static_assert(
    Layer<CategoryEncoding<4, CategoryEncodingOptions{.output_mode = CategoryOutput::one_hot}>,
          Shape<2>, double>);
static_assert(Layer<Rescaling<1.0 / 255>, Shape<28, 28>>);
static_assert(Layer<Rescaling<2.0, -1.0>, Shape<10>, double>);
static_assert(Layer<Reshape<28, 28, 1>, Shape<28, 28>>);
static_assert(Layer<Reshape<784>, Shape<28, 28>>);
static_assert(Layer<RMSNormalization<>, Shape<26, 26, 32>>);
static_assert(Layer<RMSNormalization<RMSNormalizationOptions{.epsilon = 1e-5}>, Shape<10>, double>);
static_assert(Layer<SeparableConv2D<32, 3, ReLU>, Shape<28, 28, 8>>);
static_assert(Layer<SeparableConv2D<4, Extent2D{1, 5}, Tanh,
                                    SeparableConv2DOptions{
                                        .stride = 2, .padding = Padding::same, .use_bias = false}>,
                    Shape<7, 4, 3>, double>);
static_assert(Layer<SimpleRNN<64>, Sequence<200, 128>>);
static_assert(Layer<SimpleRNN<3, SimpleRNNOptions{.go_backwards = true}>, Sequence<5, 4>, double>);
static_assert(Layer<Slice<1, 2>, Shape<4>>);
static_assert(Layer<Slice<0, 1>, Shape<1>, double>);
static_assert(ActivationFunction<Sigmoid> && ActivationFunction<Sigmoid, double>);
static_assert(ActivationFunction<Tanh> && ActivationFunction<Tanh, double>);
static_assert(ActivationFunction<SiLU> && ActivationFunction<SiLU, double>);
static_assert(ActivationFunction<ELU> && ActivationFunction<ELU, double>);
static_assert(ActivationFunction<SELU> && ActivationFunction<SELU, double>);
static_assert(ActivationFunction<Softplus> && ActivationFunction<Softplus, double>);
static_assert(ActivationFunction<Mish> && ActivationFunction<Mish, double>);
static_assert(ActivationFunction<Exponential> && ActivationFunction<Exponential, double>);
static_assert(Layer<SpatialDropout1D<0.5>, Sequence<8, 4>>);
static_assert(Layer<SpatialDropout1D<0.0>, Sequence<8, 4>, double>);
static_assert(Layer<SpatialDropout2D<0.5>, Shape<26, 26, 32>>);
static_assert(Layer<SpatialDropout2D<0.0>, Shape<2, 3, 1>, double>);
static_assert(Layer<ToSequence, Shape<28, 28>>);
static_assert(Layer<ToSequence, Shape<28>, double>);
static_assert(Layer<UpSampling1D<>, Sequence<8, 4>>);
static_assert(Layer<UpSampling1D<3>, Sequence<8, 4>, double>);
static_assert(Layer<UpSampling2D<>, Shape<13, 13, 32>>);
static_assert(Layer<UpSampling2D<Extent2D{1, 3}, UpSampling2DOptions{Interpolation::bilinear}>,
                    Shape<2, 2, 1>, double>);
static_assert(Layer<ZeroPadding1D<>, Sequence<8, 4>>);
static_assert(Layer<ZeroPadding1D<2, 0>, Sequence<8, 4>, double>);
static_assert(Layer<ZeroPadding2D<>, Shape<26, 26, 32>>);
static_assert(Layer<ZeroPadding2D<Margins2D{1, 2, 0, 3}>, Shape<2, 2, 1>, double>);

}  // namespace lockstep
