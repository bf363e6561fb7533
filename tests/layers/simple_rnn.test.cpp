#include "lockstep/layers/simple_rnn.hpp"

#include <doctest/doctest.h>

#include "golden/recurrent.hpp"
#include "layers/recurrent_testing.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::Sequence, ls::SimpleRNN, ls::SimpleRNNOptions;

namespace {

constexpr SimpleRNNOptions sequences{.return_sequences = true};
constexpr SimpleRNNOptions dropouts{.go_backwards = true, .dropout = 0.3, .recurrent_dropout = 0.4};

}  // namespace

TEST_CASE("SimpleRNN: variables, values and gradients of Keras, with masks") {
  CHECK(SimpleRNN<7>::variables<Sequence<5, 4>>[1].name == "simple_rnn_cell/recurrent_kernel");
  lockstep_test::check_golden_struct<golden::simple_rnn, SimpleRNN<2, sequences>, Sequence<5, 3>>(
      4);
}

TEST_CASE(
    "SimpleRNN: gradients against differences; a sample's output does not depend on its row") {
  lockstep_test::check_gradients_for_all_batches<SimpleRNN<3, sequences>, Sequence<5, 4>>();
  lockstep_test::check_gradients<SimpleRNN<3, dropouts>, Sequence<5, 4>>(17);
  lockstep_test::check_rows_alike<SimpleRNN<9, dropouts>, Sequence<5, 4>>();
}

TEST_CASE("SimpleRNN: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using Last = SimpleRNN<2, SimpleRNNOptions{}, ls::Linear>;
  lockstep_test::check_golden_struct<golden::simple_rnn_relu, SimpleRNN<2, sequences, ls::ReLU>,
                                     In>(4);
  lockstep_test::check_golden_struct<golden::simple_rnn_linear, Last, In>(4);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<SimpleRNN<3, dropouts, ls::Softplus>, Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<SimpleRNN<9, dropouts, ls::ReLU>, Sequence<5, 4>>();
}
