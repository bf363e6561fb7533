#include "lockstep/layers/lstm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "golden/recurrent.hpp"
#include "layers/recurrent_testing.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::LSTM, ls::LSTMOptions, ls::Sequence, ls::Shape;

namespace {

constexpr LSTMOptions sequences{.return_sequences = true};
constexpr LSTMOptions backwards{.return_sequences = true, .go_backwards = true};
constexpr LSTMOptions no_bias{.go_backwards = true, .use_bias = false};
constexpr LSTMOptions dropouts{.return_sequences = true, .dropout = 0.3, .recurrent_dropout = 0.4};

static_assert(std::is_same_v<LSTM<7>::Output<Sequence<5, 4>>, Shape<7>>);
static_assert(std::is_same_v<LSTM<7, sequences>::Output<Sequence<5, 4>>, Sequence<5, 7>>);
static_assert(LSTM<7, sequences>::keeps_mask && !LSTM<7>::keeps_mask);

}  // namespace

TEST_CASE("LSTM: variables are Keras's, and the forget gate's bias begins with 1") {
  constexpr auto variables = LSTM<7>::variables<Sequence<5, 4>>;
  static_assert(variables.size() == 3 && LSTM<7, no_bias>::variables<Sequence<5, 4>>.size() == 2);
  CHECK(variables[0].name == "lstm_cell/kernel");
  CHECK(ls::shape_text(variables[0].shape()) == "(4, 28)");
  CHECK(variables[1].name == "lstm_cell/recurrent_kernel");
  CHECK(ls::shape_text(variables[1].shape()) == "(7, 28)");
  CHECK(variables[2].name == "lstm_cell/bias");
  std::vector<double> bias(28, 5);
  ls::RandomStream random{ls::RandomKey(1)};
  variables[2].initializer.fill<double>(random, variables[2].shape(), variables[2].fans, bias);
  for (std::size_t i = 0; i < bias.size(); ++i) CHECK(bias[i] == (i / 7 == 1 ? 1 : 0));
  constexpr auto plain =
      LSTM<7, LSTMOptions{.unit_forget_bias = false}>::variables<Sequence<5, 4>>[2];
  plain.initializer.fill<double>(random, plain.shape(), plain.fans, bias);
  CHECK(std::all_of(bias.begin(), bias.end(), [](double value) { return value == 0; }));
}

TEST_CASE("LSTM: regularisers and constraints are its variables'") {
  constexpr LSTMOptions decayed{.kernel_regularizer = ls::L2{0.5},
                                .recurrent_regularizer = ls::L1{0.25}};
  constexpr auto variables = LSTM<7, decayed>::variables<Sequence<5, 4>>;
  static_assert(variables[0].regularizer == ls::Regularizer{.l2 = 0.5});
  static_assert(variables[1].regularizer == ls::Regularizer{.l1 = 0.25});
  CHECK(variables[2].regularizer.is_none());
}

TEST_CASE("LSTM: values and gradients of Keras, with masks") {
  using In = Sequence<5, 3>;
  lockstep_test::check_golden_struct<golden::lstm, LSTM<2>, In>(4);
  lockstep_test::check_golden_struct<golden::lstm_sequences, LSTM<2, sequences>, In>(4);
  lockstep_test::check_golden_struct<golden::lstm_backwards, LSTM<2, backwards>, In>(4);
  lockstep_test::check_golden_struct<golden::lstm_last, LSTM<2, no_bias>, In>(4);
}

TEST_CASE("LSTM: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using Other = LSTM<2, sequences, ls::ReLU, ls::HardSigmoid>;
  lockstep_test::check_golden_struct<golden::lstm_activations, Other, In>(4);
  lockstep_test::check_gradients_for_all_batches<LSTM<3, sequences, ls::Softsign, ls::Sigmoid>,
                                                 Sequence<5, 4>>();
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<LSTM<3, dropouts, ls::ELU, ls::HardSigmoid>, Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<LSTM<9, dropouts, ls::ReLU, ls::HardSigmoid>, Sequence<19, 4>>();
}

TEST_CASE("LSTM: with an activation without a bound, padding does not grow") {
  using Long = LSTM<8, LSTMOptions{.go_backwards = true}, ls::Linear, ls::Sigmoid>;
  lockstep_test::LayerRig<Long, Sequence<400, 1>, float> rig(1);
  std::fill(rig.weights[0].begin(), rig.weights[0].end(), -100.0F);  // closes the gates
  std::fill(rig.weights[1].begin(), rig.weights[1].end(), 4.0F);
  std::fill(rig.weights[2].begin(), rig.weights[2].end(), 4.0F);
  std::fill(rig.x.begin(), rig.x.end(), 0.0F);
  std::fill_n(rig.x.begin(), 400, 1.0F);
  rig.forward();
  rig.backward();
  for (const auto& gradient : rig.gradients)
    for (const float value : gradient) CHECK(std::isfinite(value));
}

TEST_CASE("LSTM: the outputs of Keras's own tests") {
  using lockstep_test::check_near, lockstep_test::keras_rows;
  check_near(keras_rows<LSTM<3>>(1.0), {.6288687, .86899155, .9460773});
  check_near(keras_rows<LSTM<3, LSTMOptions{.go_backwards = true}>>(1.0),
             {.35622165, .74789524, .8872726});
  check_near(keras_rows<LSTM<3>>(), {.57019705, .8661914, .9459622});
  check_near(keras_rows<LSTM<3, LSTMOptions{.use_bias = false}>>(),
             {.54986924, .86226785, .9443936});
}

TEST_CASE("LSTM: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<LSTM<3>, Sequence<1, 2>>();
  lockstep_test::check_gradients_for_all_batches<LSTM<3, backwards>, Sequence<5, 4>>();
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients<LSTM<3, dropouts>, Sequence<5, 4>>(17); });
}

TEST_CASE("LSTM: a sample's output does not depend on its row, with dropouts") {
  lockstep_test::check_rows_alike<LSTM<9>, Sequence<5, 4>>();
  lockstep_test::check_rows_alike<LSTM<9, dropouts>, Sequence<19, 4>>();
}

TEST_CASE(
    "LSTM: dropouts are drawn in training alone, and drop one part of a sequence for all its "
    "steps") {
  using L = LSTM<3, LSTMOptions{.return_sequences = true, .dropout = 0.5}>;
  lockstep_test::LayerRig<L, Sequence<4, 2>, double> rig(16);
  lockstep_test::LayerRig<LSTM<3, sequences>, Sequence<4, 2>, double> plain(16);
  rig.context.training = plain.context.training = false;
  rig.forward();
  plain.forward();
  CHECK(std::equal(rig.y.begin(), rig.y.end(), plain.y.begin()));
  rig.context.training = true;
  rig.forward();
  CHECK(!std::equal(rig.y.begin(), rig.y.end(), plain.y.begin()));
  rig.backward();
  std::size_t dropped = 0;
  for (std::size_t f = 0; f < 2; ++f)
    for (std::size_t s = 0; s < 16; ++s) {
      std::size_t zeros = 0;
      for (std::size_t t = 0; t < 4; ++t) zeros += rig.dx[f * rig.stride + s * 4 + t] == 0;
      CHECK((zeros == 0 || zeros == 4));
      dropped += zeros == 4;
    }
  CHECK(dropped > 5);
  CHECK(dropped < 27);
}

TEST_CASE("LSTM: with dropouts of 1 it sees neither inputs nor states" *
          doctest::test_suite("Keras: numerics")) {
  using Blind = LSTM<3, LSTMOptions{.dropout = 1, .recurrent_dropout = 1}>;
  lockstep_test::LayerRig<Blind, Sequence<4, 2>, double> blind(5);
  lockstep_test::LayerRig<LSTM<3>, Sequence<4, 2>, double> zeros(5);
  for (double& weight : zeros.weights[0]) weight = 0;
  for (double& weight : zeros.weights[1]) weight = 0;
  blind.forward();
  zeros.forward();
  CHECK(std::equal(blind.y.begin(), blind.y.end(), zeros.y.begin()));
  blind.backward();
  for (const std::size_t kernel : {0u, 1u})
    for (const double gradient : blind.gradients[kernel]) CHECK(gradient == 0);
  for (const double dx : blind.dx) CHECK(dx == 0);
}
