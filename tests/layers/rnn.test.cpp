#include "lockstep/layers/rnn.hpp"

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
using ls::GRU, ls::GRUOptions;
using ls::LSTM, ls::LSTMOptions, ls::Sequence, ls::Shape;
using ls::SimpleRNN, ls::SimpleRNNOptions;

namespace {

constexpr SimpleRNNOptions simple_sequences{.return_sequences = true};
constexpr SimpleRNNOptions simple_dropouts{
    .go_backwards = true, .dropout = 0.3, .recurrent_dropout = 0.4};

}  // namespace

TEST_CASE("SimpleRNN: variables, values and gradients of Keras, with masks") {
  CHECK(SimpleRNN<7>::variables<Sequence<5, 4>>[1].name == "simple_rnn_cell/recurrent_kernel");
  lockstep_test::check_golden_struct<golden::simple_rnn, SimpleRNN<2, simple_sequences>,
                                     Sequence<5, 3>>(4);
}

TEST_CASE(
    "SimpleRNN: gradients against differences; a sample's output does not depend on its row") {
  lockstep_test::check_gradients_for_all_batches<SimpleRNN<3, simple_sequences>, Sequence<5, 4>>();
  lockstep_test::check_gradients<SimpleRNN<3, simple_dropouts>, Sequence<5, 4>>(17);
  lockstep_test::check_rows_alike<SimpleRNN<9, simple_dropouts>, Sequence<5, 4>>();
}

TEST_CASE("SimpleRNN: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using Last = SimpleRNN<2, SimpleRNNOptions{}, ls::Linear>;
  lockstep_test::check_golden_struct<golden::simple_rnn_relu,
                                     SimpleRNN<2, simple_sequences, ls::ReLU>, In>(4);
  lockstep_test::check_golden_struct<golden::simple_rnn_linear, Last, In>(4);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<SimpleRNN<3, simple_dropouts, ls::Softplus>, Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<SimpleRNN<9, simple_dropouts, ls::ReLU>, Sequence<5, 4>>();
}

namespace {

constexpr GRUOptions gru_sequences{.return_sequences = true};
constexpr GRUOptions reset_before{.return_sequences = true, .reset_after = false};
constexpr GRUOptions gru_no_bias{.go_backwards = true, .use_bias = false};
constexpr GRUOptions gru_dropouts{.reset_after = false, .dropout = 0.3, .recurrent_dropout = 0.4};
constexpr GRUOptions dropouts_after{.go_backwards = true, .recurrent_dropout = 0.4};

}  // namespace

TEST_CASE("GRU: variables are Keras's") {
  constexpr auto variables = GRU<7>::variables<Sequence<5, 4>>;
  CHECK(variables[0].name == "gru_cell/kernel");
  CHECK(ls::shape_text(variables[1].shape()) == "(7, 21)");
  CHECK(ls::shape_text(variables[2].shape()) == "(2, 21)");
  CHECK(ls::shape_text(GRU<7, reset_before>::variables<Sequence<5, 4>>[2].shape()) == "(21)");
}

TEST_CASE("GRU: values and gradients of Keras, with masks") {
  using In = Sequence<5, 3>;
  lockstep_test::check_golden_struct<golden::gru, GRU<2>, In>(4);
  lockstep_test::check_golden_struct<golden::gru_sequences, GRU<2, gru_sequences>, In>(4);
  lockstep_test::check_golden_struct<golden::gru_before, GRU<2, reset_before>, In>(4);
  lockstep_test::check_golden_struct<golden::gru_no_bias, GRU<2, gru_no_bias>, In>(4);
}

TEST_CASE("GRU: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using After = GRU<2, GRUOptions{}, ls::Softsign, ls::HardSigmoid>;
  using Before = GRU<2, reset_before, ls::ELU, ls::HardSigmoid>;
  lockstep_test::check_golden_struct<golden::gru_activations, After, In>(4);
  lockstep_test::check_golden_struct<golden::gru_before_activations, Before, In>(4);
  lockstep_test::for_each_instruction_set([] {
    using lockstep_test::check_gradients;
    check_gradients<GRU<3, gru_dropouts, ls::Softsign, ls::Sigmoid>, Sequence<5, 4>>(17);
    check_gradients<GRU<3, dropouts_after, ls::ELU, ls::Sigmoid>, Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<GRU<9, gru_dropouts, ls::ReLU, ls::Sigmoid>, Sequence<5, 4>>();
}

TEST_CASE("GRU: the outputs of Keras's own tests") {
  using lockstep_test::check_near, lockstep_test::keras_rows;
  check_near(keras_rows<GRU<3>>(), {.5217289, .6371659, .39384964});
  check_near(keras_rows<GRU<3, GRUOptions{.go_backwards = true}>>(),
             {.24406259, .611516, .3928808});
  check_near(keras_rows<GRU<3, GRUOptions{.reset_after = false}>>(),
             {.51447755, .6426879, .40208298});
  check_near(keras_rows<GRU<3, GRUOptions{.use_bias = false}>>(), {.49988455, .64701194, .4103359});
}

TEST_CASE("GRU: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<GRU<3, gru_sequences>, Sequence<5, 4>>();
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<GRU<3, gru_dropouts>, Sequence<5, 4>>(17);
    lockstep_test::check_gradients<GRU<3, dropouts_after>, Sequence<5, 4>>(3);
  });
}

TEST_CASE("GRU: a sample's output does not depend on its row") {
  lockstep_test::check_rows_alike<GRU<9, gru_dropouts>, Sequence<5, 4>>();
}

namespace {

constexpr LSTMOptions lstm_sequences{.return_sequences = true};
constexpr LSTMOptions backwards{.return_sequences = true, .go_backwards = true};
constexpr LSTMOptions lstm_no_bias{.go_backwards = true, .use_bias = false};
constexpr LSTMOptions lstm_dropouts{
    .return_sequences = true, .dropout = 0.3, .recurrent_dropout = 0.4};

static_assert(std::is_same_v<LSTM<7>::Output<Sequence<5, 4>>, Shape<7>>);
static_assert(std::is_same_v<LSTM<7, lstm_sequences>::Output<Sequence<5, 4>>, Sequence<5, 7>>);
static_assert(LSTM<7, lstm_sequences>::keeps_mask && !LSTM<7>::keeps_mask);

}  // namespace

TEST_CASE("LSTM: variables are Keras's, and the forget gate's bias begins with 1") {
  constexpr auto variables = LSTM<7>::variables<Sequence<5, 4>>;
  static_assert(variables.size() == 3 &&
                LSTM<7, lstm_no_bias>::variables<Sequence<5, 4>>.size() == 2);
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
  lockstep_test::check_golden_struct<golden::lstm_sequences, LSTM<2, lstm_sequences>, In>(4);
  lockstep_test::check_golden_struct<golden::lstm_backwards, LSTM<2, backwards>, In>(4);
  lockstep_test::check_golden_struct<golden::lstm_last, LSTM<2, lstm_no_bias>, In>(4);
}

TEST_CASE("LSTM: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using Other = LSTM<2, lstm_sequences, ls::ReLU, ls::HardSigmoid>;
  lockstep_test::check_golden_struct<golden::lstm_activations, Other, In>(4);
  lockstep_test::check_gradients_for_all_batches<LSTM<3, lstm_sequences, ls::Softsign, ls::Sigmoid>,
                                                 Sequence<5, 4>>();
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<LSTM<3, lstm_dropouts, ls::ELU, ls::HardSigmoid>,
                                   Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<LSTM<9, lstm_dropouts, ls::ReLU, ls::HardSigmoid>,
                                  Sequence<19, 4>>();
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
      [] { lockstep_test::check_gradients<LSTM<3, lstm_dropouts>, Sequence<5, 4>>(17); });
}

TEST_CASE("LSTM: a sample's output does not depend on its row, with lstm_dropouts") {
  lockstep_test::check_rows_alike<LSTM<9>, Sequence<5, 4>>();
  lockstep_test::check_rows_alike<LSTM<9, lstm_dropouts>, Sequence<19, 4>>();
}

TEST_CASE(
    "LSTM: lstm_dropouts are drawn in training alone, and drop one part of a sequence for all its "
    "steps") {
  using L = LSTM<3, LSTMOptions{.return_sequences = true, .dropout = 0.5}>;
  lockstep_test::LayerRig<L, Sequence<4, 2>, double> rig(16);
  lockstep_test::LayerRig<LSTM<3, lstm_sequences>, Sequence<4, 2>, double> plain(16);
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

TEST_CASE("LSTM: with lstm_dropouts of 1 it sees neither inputs nor states" *
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
