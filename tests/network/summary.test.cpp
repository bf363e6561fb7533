#include "lockstep/network/layer_names.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_CASE("render_summary: the tutorial's CNN, as TensorFlow 2.11 prints it") {
  const ls::SummaryRow rows[] = {{"reshape", "Reshape", {28, 28, 1}, 0},
                                 {"conv2d", "Conv2D", {26, 26, 32}, 320},
                                 {"flatten", "Flatten", {21632}, 0},
                                 {"dense", "Dense", {128}, 2769024},
                                 {"dense_1", "Dense", {10}, 1290}};
  CHECK(ls::render_summary("sequential", rows) ==
        "Model: \"sequential\"\n"
        "_________________________________________________________________\n"
        " Layer (type)                Output Shape              Param #   \n"
        "=================================================================\n"
        " reshape (Reshape)           (None, 28, 28, 1)         0         \n"
        "                                                                 \n"
        " conv2d (Conv2D)             (None, 26, 26, 32)        320       \n"
        "                                                                 \n"
        " flatten (Flatten)           (None, 21632)             0         \n"
        "                                                                 \n"
        " dense (Dense)               (None, 128)               2769024   \n"
        "                                                                 \n"
        " dense_1 (Dense)             (None, 10)                1290      \n"
        "                                                                 \n"
        "=================================================================\n"
        "Total params: 2,770,634\n"
        "Trainable params: 2,770,634\n"
        "Non-trainable params: 0\n"
        "_________________________________________________________________\n");
}

TEST_CASE("render_summary: long names go on in the next line") {
  const ls::SummaryRow rows[] = {
      {"batch_normalization", "BatchNormalization", {26, 26, 32}, 64, 64},
      {"scalar", "Sum", {}, 0},
      {"big", "Dense", {1000}, 12345678901}};
  CHECK(ls::render_summary("m", rows) ==
        "Model: \"m\"\n"
        "_________________________________________________________________\n"
        " Layer (type)                Output Shape              Param #   \n"
        "=================================================================\n"
        " batch_normalization (BatchN  (None, 26, 26, 32)       128       \n"
        " ormalization)                                                   \n"
        "                                                                 \n"
        " scalar (Sum)                (None,)                   0         \n"
        "                                                                 \n"
        " big (Dense)                 (None, 1000)              1234567890\n"
        "                                                       1         \n"
        "                                                                 \n"
        "=================================================================\n"
        "Total params: 12,345,679,029\n"
        "Trainable params: 12,345,678,965\n"
        "Non-trainable params: 64\n"
        "_________________________________________________________________\n");
}
