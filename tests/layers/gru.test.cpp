#include "lockstep/layers/gru.hpp"

#include <doctest/doctest.h>

#include "golden/recurrent.hpp"
#include "layers/recurrent_testing.hpp"
#include "support/golden_struct.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using ls::GRU, ls::GRUOptions, ls::Sequence;

namespace {

constexpr GRUOptions sequences{.return_sequences = true};
constexpr GRUOptions reset_before{.return_sequences = true, .reset_after = false};
constexpr GRUOptions no_bias{.go_backwards = true, .use_bias = false};
constexpr GRUOptions dropouts{.reset_after = false, .dropout = 0.3, .recurrent_dropout = 0.4};
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
  lockstep_test::check_golden_struct<golden::gru_sequences, GRU<2, sequences>, In>(4);
  lockstep_test::check_golden_struct<golden::gru_before, GRU<2, reset_before>, In>(4);
  lockstep_test::check_golden_struct<golden::gru_no_bias, GRU<2, no_bias>, In>(4);
}

TEST_CASE("GRU: other activations, as in Keras") {
  using In = Sequence<5, 3>;
  using After = GRU<2, GRUOptions{}, ls::Softsign, ls::HardSigmoid>;
  using Before = GRU<2, reset_before, ls::ELU, ls::HardSigmoid>;
  lockstep_test::check_golden_struct<golden::gru_activations, After, In>(4);
  lockstep_test::check_golden_struct<golden::gru_before_activations, Before, In>(4);
  lockstep_test::for_each_instruction_set([] {
    using lockstep_test::check_gradients;
    check_gradients<GRU<3, dropouts, ls::Softsign, ls::Sigmoid>, Sequence<5, 4>>(17);
    check_gradients<GRU<3, dropouts_after, ls::ELU, ls::Sigmoid>, Sequence<5, 4>>(17);
  });
  lockstep_test::check_rows_alike<GRU<9, dropouts, ls::ReLU, ls::Sigmoid>, Sequence<5, 4>>();
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
  lockstep_test::check_gradients_for_all_batches<GRU<3, sequences>, Sequence<5, 4>>();
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients<GRU<3, dropouts>, Sequence<5, 4>>(17);
    lockstep_test::check_gradients<GRU<3, dropouts_after>, Sequence<5, 4>>(3);
  });
}

TEST_CASE("GRU: a sample's output does not depend on its row") {
  lockstep_test::check_rows_alike<GRU<9, dropouts>, Sequence<5, 4>>();
}
