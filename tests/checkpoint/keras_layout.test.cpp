#include "lockstep/checkpoint/keras_layout.hpp"

#include <doctest/doctest.h>

#include <string>

using lockstep::detail::keras_place;

TEST_CASE("keras_place: what all paths have in common is left out") {
  CHECK(keras_place("layers/dense/vars/0") == "dense/0");
  CHECK(keras_place("layers/sequential/layers/dense_1/vars/0") == "sequential/dense_1/0");
  CHECK(keras_place("_layer_checkpoint_dependencies/dense/vars/1") == "dense/1");
  CHECK(keras_place("layers/lstm/cell/vars/2") == "lstm/cell/2");
  CHECK(keras_place("vars/0") == "0");
}

TEST_CASE("keras_place: parts that earlier versions of Keras wrote with an underscore") {
  CHECK(keras_place("layers/mha/_query_dense/vars/1") == "mha/query_dense/1");
  CHECK(keras_place("layers/mha/_query_dense/vars/1") ==
        keras_place("layers/mha/query_dense/vars/1"));
}

TEST_CASE("keras_place: a layer whose name only begins or ends like a common part keeps it") {
  CHECK(keras_place("layers/vars_1/vars/0") == "vars_1/0");
  CHECK(keras_place("layers/my_layers/vars/0") == "my_layers/0");
  CHECK(keras_place("layers/dense_/vars/0") == "dense_/0");
}

TEST_CASE("keras_place: nothing but common parts, or no part at all, is no place") {
  CHECK(keras_place("").empty());
  CHECK(keras_place("vars").empty());
  CHECK(keras_place("layers/vars").empty());
}
