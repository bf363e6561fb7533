#include "lockstep/training/keras_layout.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

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
#include "lockstep/network/frozen.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"

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
