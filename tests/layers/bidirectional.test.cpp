#include "lockstep/layers/bidirectional.hpp"

#include <doctest/doctest.h>

#include "golden/recurrent.hpp"
#include "layers/recurrent_testing.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Bidirectional, ls::GRU, ls::GRUOptions, ls::LSTM, ls::LSTMOptions, ls::MergeMode,
    ls::Sequence, ls::Shape, ls::SimpleRNN, ls::SimpleRNNOptions;

namespace {

constexpr LSTMOptions sequences{.return_sequences = true};
constexpr LSTMOptions dropouts{.return_sequences = true, .dropout = 0.3, .recurrent_dropout = 0.4};
using Sum = Bidirectional<GRU<2, GRUOptions{.return_sequences = true}>, MergeMode::sum>;
using Product =
    Bidirectional<SimpleRNN<2, SimpleRNNOptions{.return_sequences = true}>, MergeMode::mul>;

static_assert(std::is_same_v<Bidirectional<LSTM<7>>::Output<Sequence<5, 4>>, Shape<14>>);
static_assert(
    std::is_same_v<Bidirectional<LSTM<7, sequences>>::Output<Sequence<5, 4>>, Sequence<5, 14>>);
static_assert(std::is_same_v<Sum::Output<Sequence<5, 4>>, Sequence<5, 2>>);

// Keras's example of a text classifier.
using Imdb =
    ls::Sequential<ls::Input<200>, ls::Embedding<20'000, 128>, Bidirectional<LSTM<64, sequences>>,
                   Bidirectional<LSTM<64>>, ls::Dense<1, ls::Sigmoid>>;
static_assert(Imdb::parameter_count == 2'757'761);

}  // namespace

TEST_CASE("Bidirectional: variables are Keras's") {
  constexpr auto variables = Bidirectional<LSTM<7>>::variables<Sequence<5, 4>>;
  static_assert(variables.size() == 6);
  CHECK(variables[0].name == "forward_lstm/lstm_cell/kernel");
  CHECK(variables[1].name == "forward_lstm/lstm_cell/recurrent_kernel");
  CHECK(variables[5].name == "backward_lstm/lstm_cell/bias");
  CHECK(ls::shape_text(variables[3].shape()) == "(4, 28)");
}

TEST_CASE("Bidirectional: a model's variables have the names of Keras's files") {
  using Net = ls::Sequential<ls::Input<5, 4>, ls::ToSequence, Bidirectional<LSTM<7, sequences>>,
                             Bidirectional<GRU<2>>>;
  const auto names = ls::detail::variable_names(Net::layers<ls::Shape<5, 4>>, true);
  REQUIRE(names.size() == 12);
  CHECK(names[1] == "bidirectional/forward_lstm/lstm_cell/recurrent_kernel");
  CHECK(names[11] == "bidirectional_1/backward_gru/gru_cell/bias");
  CHECK_NOTHROW(ls::detail::check_names(Net::layers<ls::Shape<5, 4>>));
  static_assert(Net::parameter_count == 2 * (4 * 28 + 7 * 28 + 28) + 2 * (14 * 6 + 2 * 6 + 12));
}

TEST_CASE("Bidirectional: values and gradients of Keras, with masks, for each way to merge") {
  using In = Sequence<5, 3>;
  lockstep_test::check_golden_struct<golden::bidirectional_concat,
                                     Bidirectional<LSTM<2, sequences>>, In>(4);
  using Other = LSTM<2, LSTMOptions{}, ls::ReLU, ls::HardSigmoid>;
  lockstep_test::check_golden_struct<golden::bidirectional_relu, Bidirectional<Other>, In>(4);
  lockstep_test::check_golden_struct<golden::bidirectional_last, Bidirectional<LSTM<2>>, In>(4);
  lockstep_test::check_golden_struct<golden::bidirectional_sum, Sum, In>(4);
  lockstep_test::check_golden_struct<golden::bidirectional_mul, Product, In>(4);
  lockstep_test::check_golden_struct<golden::bidirectional_ave,
                                     Bidirectional<GRU<2>, MergeMode::ave>, In>(4);
}

TEST_CASE("Bidirectional: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<Bidirectional<LSTM<3, sequences>>,
                                                 Sequence<5, 4>>();
  lockstep_test::check_gradients<Bidirectional<LSTM<3, dropouts>>, Sequence<5, 4>>(17);
  lockstep_test::check_gradients<Bidirectional<SimpleRNN<3>, MergeMode::mul>, Sequence<5, 4>>(3);
}

TEST_CASE("Bidirectional: a sample's output does not depend on its row, with dropouts") {
  lockstep_test::check_rows_alike<Bidirectional<LSTM<9, dropouts>>, Sequence<5, 4>>();
}
