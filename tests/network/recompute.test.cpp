#include "lockstep/network/recompute.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/layers.hpp"
#include "lockstep/network.hpp"
#include "lockstep/network/few_samples.hpp"
#include "lockstep/network/signature.hpp"
#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// y = factor x, where the factor grows with each forward in training, and is kept for backward.
struct Growing {
  static constexpr std::string_view name = "growing";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"factor", {1}, ls::ones}};
  template <class In>
  static constexpr std::size_t scratch(std::size_t) {
    return 1;
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    if (pass.context.training) pass.state[0][0] *= T(1.5);
    pass.scratch[0] = pass.state[0][0];
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        pass.y(i, f) = pass.state[0][0] * pass.x(i, f);
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t i = 0; i < pass.x.samples(); ++i)
        pass.dx(i, f) = pass.scratch[0] * pass.dy(i, f);
  }
};

/// Two steps of each: loss, predictions, gradients of weights and of the input, and state.
template <class With, class Without, class T = double>
void check_same_bits() {
  for (const std::size_t samples : {1u, 5u, 17u}) {
    CAPTURE(samples);
    NetRunner<With, T> with(3);
    NetRunner<Without, T> without(3);
    const auto state = [](auto& net) {
      const auto values = net.workspace().state().values();
      return std::vector<T>(values.begin(), values.end());
    };
    for (const bool training : {true, true, false}) {
      CHECK(with.run(samples, 7, training) == without.run(samples, 7, training));
      CHECK(with.outputs() == without.outputs());
      CHECK(with.gradients() == without.gradients());
      CHECK(state(with) == state(without));
    }
    with.context().training = without.context().training = true;
    CHECK(with.input_gradient() == without.input_gradient());
    CHECK(with.gradients() == without.gradients());
  }
}

template <class... Layers>
using Flat = ls::Sequential<ls::Input<4>, Layers...>;
using Inner = ls::Sequential<ls::Dense<6, ls::Tanh>, ls::Dropout<0.4>, ls::BatchNormalization<>,
                             ls::GaussianNoise<0.1>, Growing, ls::Dense<4>>;

constexpr ls::EmbeddingOptions masked{.mask_zero = true};
constexpr ls::LSTMOptions sequences{.return_sequences = true};
template <class... Layers>
using Tokens = ls::Sequential<ls::Input<6, 3>, ls::ToSequence, Layers...>;

}  // namespace

TEST_SUITE("Recompute") {
  TEST_CASE("the bits of the layers alone, with random masks and variables that forward changes") {
    check_same_bits<Flat<ls::Recompute<Inner>, ls::Dense<3>>, Flat<Inner, ls::Dense<3>>>();
    check_same_bits<Flat<ls::Dense<4>, ls::Recompute<ls::Dense<5, ls::GELU>, ls::Dropout<0.5>>>,
                    Flat<ls::Dense<4>, ls::Sequential<ls::Dense<5, ls::GELU>, ls::Dropout<0.5>>>>();
    check_same_bits<Flat<ls::Recompute<Inner>, ls::Recompute<Inner>>, Flat<Inner, Inner>, float>();
  }

  TEST_CASE("of one layer, and beside layers that fuse with it") {
    using With = Flat<ls::Dense<4, ls::ReLU>, ls::Recompute<ls::Dense<5>>,
                      ls::Activation<ls::Sigmoid>, ls::Recompute<ls::Flatten>, ls::Dense<2>>;
    using Without = Flat<ls::Dense<4, ls::ReLU>, ls::Dense<5>, ls::Activation<ls::Sigmoid>,
                         ls::Flatten, ls::Dense<2>>;
    check_same_bits<With, Without>();
    CHECK(With::variable_names<ls::Shape<4>>() == Without::variable_names<ls::Shape<4>>());
  }

  TEST_CASE("in Repeat, in Recompute, and where branches are summed") {
    using Block = ls::Residual<ls::Dense<4, ls::Tanh>, ls::Dropout<0.3>, ls::Dense<4>>;
    check_same_bits<Flat<ls::Repeat<3, ls::Recompute<Block>>>, Flat<ls::Repeat<3, Block>>>();
    check_same_bits<Flat<ls::Recompute<ls::Repeat<2, ls::Recompute<Inner>>, ls::Recompute<Block>>>,
                    Flat<ls::Sequential<ls::Repeat<2, Inner>, Block>>>();
    // A BatchNormalization at the end writes the sum.
    using Summing = ls::Sequential<ls::Dense<4>, ls::BatchNormalization<>>;
    check_same_bits<
        Flat<ls::Residual<ls::Recompute<Summing>>, ls::Activation<ls::ReLU>, ls::Dense<2>>,
        Flat<ls::Residual<Summing>, ls::Activation<ls::ReLU>, ls::Dense<2>>>();
    check_same_bits<Flat<ls::Parallel<ls::Concatenate, ls::Recompute<Inner>, ls::Dense<2>>>,
                    Flat<ls::Parallel<ls::Concatenate, Inner, ls::Dense<2>>>>();
    // One that begins with a LayerNormalization adds to the gradient of the sum.
    using Adding = ls::Sequential<ls::LayerNormalization<>, ls::Dense<4>>;
    check_same_bits<Flat<ls::Residual<ls::Recompute<Adding>>, ls::Dense<2>>,
                    Flat<ls::Residual<Adding>, ls::Dense<2>>>();
  }

  TEST_CASE("of sequences: masks that come from below, or from a layer inside") {
    using Attend = ls::Residual<ls::LayerNormalization<>, ls::MultiHeadAttention<2, 2>>;
    check_same_bits<Tokens<ls::Recompute<Attend>, ls::Recompute<ls::Dense<2>>>,
                    Tokens<Attend, ls::Dense<2>>>();
    using Recurrent =
        ls::Sequential<ls::LSTM<3, sequences>, ls::Dropout<0.5>, ls::BatchNormalization<>>;
    check_same_bits<Tokens<ls::Masking<0.0>, ls::Recompute<Recurrent>, ls::LSTM<4>>,
                    Tokens<ls::Masking<0.0>, Recurrent, ls::LSTM<4>>>();
    using Makes = ls::Sequential<ls::Dense<3>, ls::Masking<0.0>>;
    check_same_bits<Tokens<ls::Recompute<Makes>, ls::Recompute<Recurrent>, ls::LSTM<4>>,
                    Tokens<Makes, Recurrent, ls::LSTM<4>>>();
    using Words = ls::Sequential<ls::Embedding<5, 3, masked>, ls::LSTM<3, sequences>>;
    NetRunner<ls::Sequential<ls::Input<6>, ls::Recompute<Words>, ls::LSTM<2>>> with;
    NetRunner<ls::Sequential<ls::Input<6>, Words, ls::LSTM<2>>> without;
    const auto run = [](auto& net) {
      net.load(5, 0);
      auto x = net.workspace().batch().x;
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t f = 0; f < 6; ++f) x(i, f) = static_cast<double>((3 * i + 2 * f) % 5);
      auto dy = net.workspace().prediction_gradient();
      net.workspace().forward(net.context(), net.parameter_slices());
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t f = 0; f < 2; ++f) dy(i, f) = static_cast<double>(i) - 2.5;
      dy.clear_padding();
      net.workspace().backward(net.context(), net.parameter_slices());
      return net.gradients();
    };
    CHECK(run(with) == run(without));
    CHECK(with.outputs() == without.outputs());
  }

  TEST_CASE("of frozen layers, and frozen itself") {
    check_same_bits<Flat<ls::Dense<4>, ls::Recompute<ls::Frozen<Inner>>, ls::Dense<2>>,
                    Flat<ls::Dense<4>, ls::Frozen<Inner>, ls::Dense<2>>>();
    check_same_bits<Flat<ls::Dense<4>, ls::Frozen<ls::Recompute<Inner>>, ls::Dense<2>>,
                    Flat<ls::Dense<4>, ls::Frozen<Inner>, ls::Dense<2>>>();
    using Adapted = ls::Sequential<ls::LoRA<ls::Dense<5, ls::ReLU>, 2>, ls::LoRA<ls::Dense<4>, 2>>;
    check_same_bits<Flat<ls::Recompute<Adapted>>, Flat<Adapted>>();
  }

  TEST_CASE("gradients are central differences") {
    check_gradients<
        Flat<ls::Recompute<ls::Dense<5, ls::Tanh>, ls::Recompute<ls::Dense<4, ls::Tanh>>>,
             ls::Dense<2>>>(5);
  }

  TEST_CASE("the activity of a layer inside counts once") {
    using Penalised =
        ls::Sequential<ls::Dense<4, ls::Tanh>, ls::ActivityRegularization<ls::L2{0.1}>>;
    NetRunner<Flat<ls::Recompute<Penalised>>> with(3);
    NetRunner<Flat<Penalised>> without(3);
    ls::ActivityPenalty of_with, of_without;
    with.context().activity_penalty = &of_with;
    without.context().activity_penalty = &of_without;
    with.run(5);
    without.run(5);
    CHECK(of_with.sum > 0);
    CHECK(of_with.sum == of_without.sum);
    CHECK(with.gradients() == without.gradients());
  }

  TEST_CASE("a block keeps its input, and all blocks share the memory of one") {
    using Block = ls::Sequential<ls::Dense<16, ls::Tanh>, ls::Dense<16, ls::Tanh>, ls::Dropout<0.5>,
                                 ls::Dense<4>>;
    using Shape = ls::Shape<4>;
    constexpr std::size_t samples = 64, mask = 16 + samples;
    constexpr auto scratch = [](std::size_t times, auto net) {
      using Net = typename decltype(net)::type;
      return Net::template scratch<Shape>(samples) / times;
    };
    using One = std::type_identity<Flat<ls::Recompute<Block>>>;
    using Eight = std::type_identity<Flat<ls::Repeat<8, ls::Recompute<Block>>>>;
    CHECK(scratch(1, One{}) == mask);
    CHECK(scratch(1, Eight{}) == 8 * mask + 7 * 4 * samples);
    const auto temporary = [](auto net) {
      return decltype(net)::type::template temporary<Shape>(samples);
    };
    CHECK(temporary(Eight{}) == temporary(One{}) + 2 * 4 * samples);
    CHECK(temporary(std::type_identity<ls::Recompute<Block>>{}) ==
          Block::scratch<Shape>(samples) + Block::temporary<Shape>(samples));
  }

  TEST_CASE("names, work and signature") {
    using With = Flat<ls::Recompute<Inner>, ls::Recompute<ls::Dense<4>, ls::Dense<4>>>;
    using Without = Flat<Inner, ls::Sequential<ls::Dense<4>, ls::Dense<4>>>;
    using Shape = ls::Shape<4>;
    CHECK(With::variable_names<Shape>() == Without::variable_names<Shape>());
    CHECK(With::state_variable_names<Shape>() == Without::state_variable_names<Shape>());
    CHECK(With::layer_names<Shape>() == Without::layer_names<Shape>());
    CHECK(With::summary() == Without::summary());
    static_assert(With::layer_count == Without::layer_count);
    static_assert(ls::signature<With> != ls::signature<Without>);
    static_assert(ls::signature<ls::Recompute<ls::Dense<4>, ls::Dense<4>>> !=
                  ls::signature<ls::Sequential<ls::Dense<4>, ls::Dense<4>>>);
    constexpr ls::Flop with = With::flop<Shape>, without = Without::flop<Shape>;
    static_assert(with.forward == without.forward);
    static_assert(with.backward == without.backward + without.forward);
    static_assert(ls::detail::ends_linearly<With> &&
                  !ls::detail::ends_linearly<Flat<ls::Recompute<ls::Dense<4, ls::Sigmoid>>>>);
    static_assert(ls::detail::few_samples_of<Flat<ls::Recompute<ls::Dense<4>>>, float>().forward !=
                  nullptr);
  }
}
