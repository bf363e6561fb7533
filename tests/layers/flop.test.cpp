#include "lockstep/layers/flop.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>

#include "lockstep/core/shape.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/network.hpp"
#include "lockstep/network/layer_at.hpp"
#include "support/model_testing.hpp"

using namespace lockstep;
using lockstep_test::UserDense;

namespace {

template <class L, class In>
constexpr Flop flop = detail::flop_of<L, In>();

/// A layer whose three parts take `forward` operations, `weights` and `input`.
constexpr Flop parts(std::uint64_t forward, std::uint64_t weights, std::uint64_t input) {
  return {forward, weights + input, weights};
}
constexpr Flop equal_parts(std::uint64_t each) { return parts(each, each, each); }

}  // namespace

TEST_SUITE("flop") {
  // By hand: 2 operations for each number of the output and each number that is summed for it.

  TEST_CASE("dense layers and convolutions") {
    CHECK(flop<Dense<3>, Shape<5>> == equal_parts(2 * 3 * 5));
    CHECK(flop<Dense<3, ReLU, DenseOptions{.use_bias = false}>, Shape<5>> == equal_parts(30));
    CHECK(flop<Dense<3>, Sequence<7, 5>> == equal_parts(7 * 30));
    // 6 x 4 places, 2 x 3 taps, 5 channels, 7 filters; with two groups half of the channels.
    CHECK(flop<Conv2D<7, Extent2D{2, 3}>, Shape<7, 6, 5>> == equal_parts(2 * 6 * 4 * 6 * 5 * 7));
    CHECK(flop<Conv2D<4, 3, ReLU, Conv2DOptions{.padding = Padding::same, .groups = 2}>,
               Shape<5, 5, 6>> == equal_parts(2 * 25 * 9 * 3 * 4));
    // 2 x 6 x 4 places, 3 x 2 x 3 taps.
    CHECK(flop<Conv3D<7, Extent3D{3, 2, 3}>, Shape<4, 7, 6, 5>> ==
          equal_parts(2 * 48 * 18 * 5 * 7));
    CHECK(flop<DepthwiseConv2D<3>, Shape<5, 5, 6>> == equal_parts(2 * 9 * 9 * 6));
    // The gradient of the depthwise kernel needs that of the pointwise one's input.
    const std::uint64_t depthwise = 2 * 9 * 9 * 6, pointwise = 2 * 9 * 6 * 4;
    CHECK(flop<SeparableConv2D<4, 3>, Shape<5, 5, 6>> ==
          parts(depthwise + pointwise, depthwise + 2 * pointwise, depthwise));
    // 3 x 3 places of the input, each with 2 x 2 taps.
    CHECK(
        flop<Conv2DTranspose<4, 2, Linear, Conv2DTransposeOptions{.stride = 2}>, Shape<3, 3, 6>> ==
        equal_parts(2 * 9 * 6 * 4 * 4));
    CHECK(flop<Conv1D<4, 3>, Sequence<8, 6>> == equal_parts(2 * 6 * 3 * 6 * 4));
    CHECK(flop<Conv1D<4, 3, Linear, Conv1DOptions{.groups = 2}>, Sequence<8, 6>> ==
          equal_parts(2 * 6 * 3 * 3 * 4));
  }

  TEST_CASE("recurrence and attention") {
    // 10 steps; the gradient of the input is one product, all others are needed for the weights.
    const std::uint64_t of_inputs = 2 * 10 * 4 * 8 * 5, of_states = 2 * 10 * 4 * 8 * 8;
    constexpr Flop lstm = flop<LSTM<8>, Sequence<10, 5>>;
    CHECK(lstm == parts(of_inputs + of_states, of_inputs + 2 * of_states, of_inputs));
    CHECK(flop<Bidirectional<LSTM<8>>, Sequence<10, 5>> == 2 * lstm);
    // 5 steps, 6 x 6 places with 3 x 3 taps, 4 gates of 4 filters.
    const std::uint64_t of_images = 2 * 5 * 36 * 9 * 2 * 16, of_hidden = 2 * 5 * 36 * 9 * 4 * 16;
    CHECK(flop<ConvLSTM2D<4, 3>, Sequence<5, 8, 8, 2>> ==
          parts(of_images + of_hidden, of_images + 2 * of_hidden, of_images));
    CHECK(flop<GRU<8>, Sequence<10, 5>>.forward == 2 * 10 * 3 * 8 * (5 + 8));
    CHECK(flop<SimpleRNN<8>, Sequence<10, 5>>.forward == 2 * 10 * 8 * (5 + 8));
    // 6 tokens of 12 numbers, 2 heads of 4; queries with keys, probabilities with values.
    const std::uint64_t projections = 3 * 2 * 6 * 12 * 8, last = 2 * 6 * 8 * 12;
    const std::uint64_t pairs = 2 * 36 * 2 * 8, causal = 2 * 21 * 2 * 8;
    CHECK(flop<MultiHeadAttention<2, 4>, Sequence<6, 12>> ==
          parts(projections + pairs + last, projections + 2 * pairs + 2 * last, projections));
    CHECK(flop<MultiHeadAttention<2, 4, MultiHeadAttentionOptions{.use_causal_mask = true}>,
               Sequence<6, 12>>
              .forward == projections + causal + last);
    // Of the causal pairs a window of 2 leaves 11; 2 heads share one of keys and values.
    CHECK(flop<MultiHeadAttention<2, 4,
                                  MultiHeadAttentionOptions{.use_causal_mask = true,
                                                            .sliding_window = 2,
                                                            .num_key_value_heads = 1}>,
               Sequence<6, 12>>
              .forward == 2 * 6 * 12 * (8 + 4 + 4) + 2 * 11 * 2 * 8 + last);
  }

  TEST_CASE("all other layers have none") {
    CHECK(flop<Embedding<50, 8>, Shape<6>> == Flop{});
    CHECK(flop<PositionEmbedding<6>, Sequence<6, 8>> == Flop{});
    CHECK(flop<BatchNormalization<>, Shape<4, 4, 3>> == Flop{});
    CHECK(flop<LayerNormalization<>, Shape<8>> == Flop{});
    CHECK(flop<MaxPooling2D<2>, Shape<4, 4, 3>> == Flop{});
    CHECK(flop<Softmax, Shape<8>> == Flop{});
  }

  TEST_CASE("a layer that does not say is named, if it has a kernel") {
    CHECK(flop<UserDense<3>, Shape<5>>.uncounted == "user_dense");
    CHECK(flop<UserDense<3>, Shape<5>>.forward == 0);
    CHECK(flop<lockstep_test::UserReLU, Shape<5>>.uncounted.empty());
    constexpr Flop both = flop<Sequential<Dense<3>, Residual<UserDense<3>>>, Shape<5>>;
    CHECK(both == Flop{30, 60, 30, "user_dense"});
  }

  TEST_CASE("containers add up what runs") {
    const std::uint64_t a = 2 * 5 * 4, b = 2 * 4 * 3;
    // The first layer with variables, and those before it, have no gradient of their input.
    CHECK(flop<Sequential<Dense<4>, Activation<ReLU>, Dense<3>>, Shape<5>> ==
          parts(a + b, a + 2 * b, a));
    CHECK(flop<Sequential<Frozen<Dense<4>>, Dense<3>>, Shape<5>> == Flop{a + b, a + 2 * b, b});
    CHECK(flop<Sequential<Frozen<Dense<4>>>, Shape<5>> == Flop{a, a, 0});
    CHECK(flop<Sequential<Frozen<Sequential<Dense<4>>>>, Shape<5>> == Flop{a, 2 * a, 0});
    // Factors of 5 x 2 and 2 x 4 beside the frozen kernel.
    const std::uint64_t factors = 2 * 2 * (5 + 4);
    CHECK(flop<LoRA<Dense<4>, 2>, Shape<5>> ==
          Flop{a + factors, a + 2 * factors, factors + 2 * 2 * 4});
    CHECK(flop<Repeat<3, Dense<5>>, Shape<5>> == parts(150, 250, 50));
    CHECK(flop<Residual<Dense<4, ReLU>, Dense<5>>, Shape<5>> == parts(2 * a, 3 * a, a));
    CHECK(flop<Parallel<Concatenate, Dense<4>, Frozen<Dense<4>>>, Shape<5>> ==
          Flop{2 * a, 3 * a, a});
    CHECK(flop<Sequential<ToSequence, Dense<4>>, Shape<7, 5>> == 7 * parts(a, a, a));
    // 6 tokens: a body of 8 x 8 above the embedding, and 50 logits.
    const std::uint64_t body = 2 * 6 * 8 * 8, head = 2 * 6 * 8 * 50;
    CHECK(flop<TiedHead<Embedding<50, 8>, Dense<8>>, Shape<6>> ==
          parts(body + head, 2 * (body + head), 0));
    constexpr Flop look = flop<CrossAttention<2, 4, Sequential<Slice<0, 4>, Embedding<50, 8>>,
                                              Sequential<Slice<4, 6>, Embedding<50, 8>>>,
                               Shape<10>>;
    const std::uint64_t all = 2 * (4 * 8 * 8 + 2 * 6 * 8 * 8 + 2 * 4 * 6 * 8 + 4 * 8 * 8);
    CHECK(look == parts(all, 2 * all, 0));
  }
}
