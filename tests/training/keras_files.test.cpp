// With Keras's files, and against Keras, it is tested in tests/saving/keras_optimizer.test.cpp.
#include "lockstep/training/keras_files.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/normalization.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/network/spectral_normalization.hpp"
#include "lockstep/network/time_distributed.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/any_optimizer.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using Lines = std::vector<std::string>;

namespace {

/// "path (name): variables".
template <class Net>
Lines layout_of() {
  Lines lines;
  for (const ls::KerasGroup& group :
       ls::detail::keras_layout_of(Net::template layers<typename Net::InputShape>).groups) {
    std::string line = group.path + " (" + group.name + "):";
    for (const std::string& variable : group.variables) line += " " + variable;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("keras_layout: a Sequential, its parts, and a Sequential in it") {
  using Inner = ls::Sequential<ls::Conv2D<2, 3>, ls::BatchNormalization<>, ls::Flatten>;
  CHECK(layout_of<ls::Sequential<ls::Input<4, 4, 1>, ls::Normalization<>, ls::Frozen<Inner>,
                                 ls::Dropout<0.5>, ls::Dense<2>, ls::Dense<3>>>() ==
        Lines{"layers/normalization (normalization): normalization/mean normalization/variance ",
              "layers/sequential (sequential):",
              "layers/sequential/layers/conv2d (conv2d): sequential/conv2d/kernel "
              "sequential/conv2d/bias",
              "layers/sequential/layers/batch_normalization (batch_normalization): "
              "sequential/batch_normalization/gamma sequential/batch_normalization/beta "
              "sequential/batch_normalization/moving_mean "
              "sequential/batch_normalization/moving_variance",
              "layers/sequential/layers/flatten (flatten):", "layers/dropout (dropout):",
              "layers/dense (dense): dense/kernel dense/bias",
              "layers/dense_1 (dense_1): dense_1/kernel dense_1/bias"});
  CHECK(ls::detail::keras_layout_of({}).groups.empty());
}

TEST_CASE("keras_layout: attention and recurrence have their variables in parts") {
  using Sequences = ls::LSTM<3, ls::LSTMOptions{.return_sequences = true}>;
  CHECK(layout_of<ls::Sequential<ls::Input<4>, ls::Embedding<9, 2>,
                                 ls::Residual<ls::MultiHeadAttention<1, 2>>,
                                 ls::Bidirectional<Sequences>, ls::GRU<2>>>() ==
        Lines{"layers/embedding (embedding): embedding/embeddings",
              "layers/multi_head_attention (multi_head_attention):",
              "layers/multi_head_attention/query_dense (query): "
              "residual/multi_head_attention/query/kernel residual/multi_head_attention/query/bias",
              "layers/multi_head_attention/key_dense (key): "
              "residual/multi_head_attention/key/kernel residual/multi_head_attention/key/bias",
              "layers/multi_head_attention/value_dense (value): "
              "residual/multi_head_attention/value/kernel residual/multi_head_attention/value/bias",
              "layers/multi_head_attention/output_dense (attention_output): "
              "residual/multi_head_attention/attention_output/kernel "
              "residual/multi_head_attention/attention_output/bias",
              "layers/bidirectional (bidirectional):",
              "layers/bidirectional/forward_layer (forward_lstm):",
              "layers/bidirectional/forward_layer/cell (lstm_cell): "
              "bidirectional/forward_lstm/lstm_cell/kernel "
              "bidirectional/forward_lstm/lstm_cell/recurrent_kernel "
              "bidirectional/forward_lstm/lstm_cell/bias",
              "layers/bidirectional/backward_layer (backward_lstm):",
              "layers/bidirectional/backward_layer/cell (lstm_cell): "
              "bidirectional/backward_lstm/lstm_cell/kernel "
              "bidirectional/backward_lstm/lstm_cell/recurrent_kernel "
              "bidirectional/backward_lstm/lstm_cell/bias",
              "layers/gru (gru):",
              "layers/gru/cell (gru_cell): gru/gru_cell/kernel gru/gru_cell/recurrent_kernel "
              "gru/gru_cell/bias"});
}

TEST_CASE("keras_layout: layers that hold a layer") {
  CHECK(layout_of<ls::Sequential<ls::Input<3, 4, 4, 1>,
                                 ls::TimeDistributed<ls::Sequential<ls::Conv2D<2, 3>, ls::Flatten>>,
                                 ls::LSTM<2>, ls::SpectralNormalization<ls::Dense<2>>>>() ==
        Lines{"layers/time_distributed (time_distributed):",
              "layers/time_distributed/layer (sequential):",
              "layers/time_distributed/layer/layers/conv2d (conv2d): "
              "time_distributed/sequential/conv2d/kernel time_distributed/sequential/conv2d/bias",
              "layers/time_distributed/layer/layers/flatten (flatten):", "layers/lstm (lstm):",
              "layers/lstm/cell (lstm_cell): lstm/lstm_cell/kernel lstm/lstm_cell/recurrent_kernel "
              "lstm/lstm_cell/bias",
              "layers/spectral_normalization (spectral_normalization): "
              "spectral_normalization/dense/kernel spectral_normalization/vector_u",
              "layers/spectral_normalization/layer (dense): spectral_normalization/dense/kernel "
              "spectral_normalization/dense/bias"});
}

TEST_CASE("keras_layout: the layers of branches in the order of a functional model of Keras") {
  using One = ls::Dense<4>;
  CHECK(
      layout_of<ls::Sequential<
          ls::Input<4>, ls::Parallel<ls::Add, One, ls::Sequential<ls::Dense<2>, One>>,
          ls::Repeat<2, ls::Residual<One>>,
          ls::Residual<ls::Sequential<One, One>, ls::Sequential<ls::Dense<4, ls::ReLU>>>>>() ==
      Lines{"layers/dense (dense): parallel/sequential/dense/kernel parallel/sequential/dense/bias",
            "layers/dense_1 (dense_1): parallel/dense/kernel parallel/dense/bias",
            "layers/dense_2 (dense_2): parallel/sequential/dense_1/kernel "
            "parallel/sequential/dense_1/bias",
            "layers/dense_3 (dense_3): repeat/residual/dense/kernel repeat/residual/dense/bias",
            "layers/dense_4 (dense_4): repeat/residual_1/dense/kernel "
            "repeat/residual_1/dense/bias",
            "layers/dense_5 (dense_5): residual/sequential/dense/kernel "
            "residual/sequential/dense/bias",
            "layers/dense_6 (dense_6): residual/sequential/dense_1/kernel "
            "residual/sequential/dense_1/bias",
            "layers/dense_7 (dense_7): residual/sequential_1/dense/kernel "
            "residual/sequential_1/dense/bias"});
}

using namespace lockstep_test;
using ls::detail::keras_optimizer_of;
using ls::detail::keras_optimizer_variables;
using ls::detail::restore_keras_optimizer;
using ls::detail::save_state;
using Trainer = ls::detail::Trainer<double>;

namespace {

using Net =
    ls::Sequential<ls::Input<2>,
                   ls::Parallel<ls::Add, ls::Dense<3>, ls::Sequential<ls::Dense<2>, ls::Dense<3>>>,
                   ls::Dense<1>>;
using Program = ls::detail::Compiled<Net, double, ls::MeanSquaredError, AnyOptimizer>;

/// A model alone, whose slots have numbers of their own.
struct Trained {
  Program program;
  ls::OneDeviceStrategy strategy;
  Trainer trainer;

  explicit Trained(const AnyOptimizer& optimizer, std::int64_t updates = 0)
      : program(ls::MeanSquaredError{}, optimizer, {}),
        trainer(program, ls::any_strategy(strategy), 1) {
    ls::detail::Variables<double>& variables = trainer.variables();
    variables.iterations = updates;
    double value = 0;
    for (const auto& slot : variables.slots())
      for (const auto slice : slot.slices())
        for (double& element : slice) element = updates > 0 ? (value += 0.125) : 0;
  }
};

std::vector<double> numbers_of(const ls::SavedArray& array) {
  std::vector<double> numbers(array.bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
  return numbers;
}

}  // namespace

TEST_CASE("keras_optimizer: the arrays stand in Keras's order of the layers, behind the rate") {
  Trained model(ls::SGD{.learning_rate = 0.25, .momentum = 0.5}, 7);
  const ls::KerasOptimizer keras = keras_optimizer_of(model.trainer, save_state(model.trainer));
  CHECK(keras.name == "sgd");
  CHECK(keras.iterations == 7);
  REQUIRE(keras.variables.size() == 9);
  CHECK(keras.count == 10);
  CHECK(keras_optimizer_variables(model.trainer) == 10);
  CHECK(keras.variables[0].name == "optimizer/vars/1");
  CHECK(keras.variables[0].extents.empty());
  CHECK(numbers_of(keras.variables[0]) == std::vector{0.25});
  // Ours are dense 3, dense 2, dense 3 behind it, dense 1; Keras begins with what is farthest from
  // the output.
  CHECK(keras.variables[1].extents == std::vector<std::uint64_t>{2, 2});
  CHECK(numbers_of(keras.variables[1])[0] == 10 * 0.125);
  CHECK(keras.variables[3].extents == std::vector<std::uint64_t>{2, 3});
  CHECK(numbers_of(keras.variables[3])[0] == 0.125);
  CHECK(numbers_of(keras.variables[5])[0] == 16 * 0.125);
  CHECK(keras.variables[7].extents == std::vector<std::uint64_t>{3, 1});
}

TEST_CASE("keras_optimizer: what was taken from one model another one goes on with") {
  const std::vector<AnyOptimizer> optimizers{
      ls::SGD{},
      ls::SGD{.momentum = 0.9},
      ls::Adam{.amsgrad = true},
      ls::AdamW{.use_ema = true},
      ls::RMSprop{.momentum = 0.5, .centered = true, .use_ema = true},
      ls::Ftrl{.initial_accumulator_value = 0.125},
      ls::Adafactor{},
      ls::Muon{}};
  for (const AnyOptimizer& optimizer : optimizers) {
    CAPTURE(optimizer.description());
    Trained from(optimizer, 5);
    from.trainer.variables().set_learning_rate(0.5);
    const ls::KerasOptimizer keras = keras_optimizer_of(from.trainer, save_state(from.trainer));
    CHECK(keras.count == keras_optimizer_variables(from.trainer));
    const Program program({}, optimizer, {});
    ls::MirroredStrategy mirrored({.replicas = 2});
    Trainer to(program, ls::any_strategy(mirrored), 9);
    const std::uint32_t weights = to.variables().parameters_crc32c();
    const auto taken = restore_keras_optimizer(to, keras);
    CHECK(taken.text == "with the state of the optimizer: 5 updates, learning rate 0.5");
    REQUIRE(taken.is_taken);
    CHECK(to.variables().parameters_crc32c() == weights);
    CHECK(to.variables().seed == 9);
    CHECK(to.variables().iterations == 5);
    CHECK(to.variables().previous_learning_rate == 0.5);
    const ls::KerasOptimizer again = keras_optimizer_of(to, save_state(to));
    CHECK(again.variables == keras.variables);
  }
}

TEST_CASE("keras_optimizer: means for what is no matrix in Adafactor's sense, factors otherwise") {
  Trained model(ls::Adafactor{}, 1);
  const auto variables = keras_optimizer_of(model.trainer, save_state(model.trainer)).variables;
  // Of [2, 2]: r and c as they are, v not at all. (Its first element is number 10.)
  CHECK(numbers_of(variables[1]) == std::vector{1.25, 1.375});
  CHECK(numbers_of(variables[2]) == std::vector{1.5, 1.625});
  CHECK(numbers_of(variables[3]) == std::vector(4, 0.0));
  // Of [3, 1], whose v is kept: number 25.
  REQUIRE(variables.size() == 1 + 8 * 3);
  CHECK(numbers_of(variables[19]) == std::vector{3.125, 3.25, 3.375});
  CHECK(numbers_of(variables[20]) == std::vector{3.25});
  CHECK(numbers_of(variables[21]) == std::vector{3.125, 3.25, 3.375});
}

TEST_CASE("keras_optimizer: momentum has the rate in force, and windows are counted in steps") {
  const ls::SGD sgd{.learning_rate = 0.5,
                    .momentum = 0.5,
                    .momentum_form = ls::MomentumForm::pytorch,
                    .gradient_accumulation_steps = 4};
  Trained model(sgd, 3);
  ls::detail::Variables<double>& variables = model.trainer.variables();
  variables.previous_learning_rate = 0.125;
  variables.accumulated_steps = 2;
  variables.accumulated_rows = 16;
  for (double& sum : variables.accumulated().values()) sum = 24;
  const ls::KerasOptimizer keras = keras_optimizer_of(model.trainer, save_state(model.trainer));
  CHECK(keras.iterations == 14);
  REQUIRE(keras.variables.size() == 1 + 8 + 8);
  CHECK(numbers_of(keras.variables[1])[0] == 3);  // two steps of means over 8 rows
  CHECK(numbers_of(keras.variables[1 + 8])[0] == 10 * 0.125 * 4);

  Trained other(sgd);
  const auto taken = restore_keras_optimizer(other.trainer, keras);
  CHECK(taken.text ==
        "with the state of the optimizer: 3 updates, learning rate 0.5; the gradients of 2 steps "
        "of 4 for the next update are left out");
  CHECK(other.trainer.variables().accumulated_steps == 0);
  CHECK(other.trainer.variables().accumulated().values()[0] == 0);
  CHECK(other.trainer.variables().previous_learning_rate == 0.5);
  CHECK(keras_optimizer_of(other.trainer, save_state(other.trainer)).iterations == 12);
}

TEST_CASE("keras_optimizer: with a schedule, there is no learning rate") {
  const auto schedule = [](std::int64_t step) { return step < 4 ? 0.5 : 0.25; };
  Trained scheduled(ls::Adam{.learning_rate = schedule}, 5);
  const auto without = keras_optimizer_of(scheduled.trainer, save_state(scheduled.trainer));
  CHECK(without.count == 1 + 16);
  Trained plain(ls::Adam{.learning_rate = 0.125});
  CHECK(restore_keras_optimizer(plain.trainer, without).text ==
        "with the state of the optimizer: 5 updates, learning rate 0.125 of this program, for the "
        "file has none");
  const auto with = keras_optimizer_of(plain.trainer, save_state(plain.trainer));
  CHECK(with.count == 2 + 16);
  CHECK(restore_keras_optimizer(scheduled.trainer, with).text ==
        "with the state of the optimizer: 5 updates, learning rate 0.25 of this program's "
        "schedule");
}

TEST_CASE("keras_optimizer: the state of another optimizer, or of other variables, is not taken") {
  Trained adam(ls::Adam{}, 2);
  const ls::KerasOptimizer keras = keras_optimizer_of(adam.trainer, save_state(adam.trainer));
  const auto refusal = [&](const AnyOptimizer& optimizer, const ls::KerasOptimizer& found) {
    Trained model(optimizer);
    const ls::TrainingState before = save_state(model.trainer);
    const auto taken = restore_keras_optimizer(model.trainer, found);
    CHECK_FALSE(taken.is_taken);
    CHECK(save_state(model.trainer) == before);
    return taken.text;
  };
  CHECK(refusal(ls::RMSprop{.centered = true}, keras) ==
        "the file has that of 'adam', this program has RMSprop");
  CHECK(refusal(ls::LARS{}, keras) ==
        "the file has that of 'adam', and Keras has no optimizer like this program's");
  CHECK(refusal(ls::Adam{.amsgrad = true}, keras) ==
        "the file's 'adam' has 18 variables, and Keras's Adam with the options and variables of "
        "this program has 25 and its learning rate");
  ls::KerasOptimizer fresh{.name = "adam_w_1", .count = 2};
  CHECK(contains(refusal(ls::Adam{}, fresh), ": it was saved before a fit"));
  Trained lars(ls::LARS{}, 2);
  CHECK(keras_optimizer_of(lars.trainer, save_state(lars.trainer)).name.empty());
  CHECK(keras_optimizer_variables(lars.trainer) == 0);

  ls::KerasOptimizer turned = keras;
  turned.name = "mine";  // a user's own name says nothing
  std::swap(turned.variables[1], turned.variables[5]);
  CHECK(refusal(ls::Adam{}, turned) ==
        "expected 'optimizer/vars/6' to be (2, 2) for 'parallel/sequential/dense/kernel', in the "
        "file it is (2, 3)");
  turned = keras;
  turned.variables[0].extents = {1};
  CHECK(contains(refusal(ls::Adam{}, turned), "to be the learning rate, in the file it is (1)"));
  for (const double rate : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    turned = keras;
    ls::SavedArray& array = turned.variables[0];
    array.scalar = ls::detail::scalar_name<double>();
    array.bytes.resize(sizeof(double));
    std::memcpy(array.bytes.data(), &rate, sizeof(double));
    CHECK(contains(refusal(ls::Adam{}, turned),
                   "to be the learning rate, a finite number of at least 0, in the file it is "));
  }
  turned = keras;
  turned.variables.clear();
  CHECK(refusal(ls::Adam{}, turned) == "the file's 'adam' has other things than arrays of numbers");
}
