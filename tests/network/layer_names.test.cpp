#include "lockstep/network/layer_names.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/layer_info.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// A block that hands on the variables of the layers in it, as a user writes one.
struct Block {
  static constexpr std::string_view name = "block";
  template <class In>
  using Output = ls::Shape<4>;
  template <class In>
  static constexpr std::array variables{
      ls::Variable{"kernel", {4, 4}, nullptr}, ls::Variable{"bias", {4}, nullptr},
      ls::Variable{"kernel", {4, 4}, nullptr}, ls::Variable{"bias", {4}, nullptr}};
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"bias", {4}, nullptr}};
};

struct SecondUserDense : UserDense<4> {
  static constexpr std::string_view name = "user_dense_1";
};
struct Nameless : UserDense<4> {
  static constexpr std::string_view name = "";
};
struct Slash : UserDense<4> {
  static constexpr std::string_view name = "a/b";
};
struct Latin : UserDense<4> {
  static constexpr std::string_view name = "latin \xE9";
};

template <class... Layers>
std::string refusal() {
  return message_of<ls::ConfigurationError>(
      [] { ls::detail::check_names(ls::Sequential<Layers...>::template layers<ls::Shape<4>>); });
}

}  // namespace

TEST_CASE("layer names: repeated ones are numbered as in Keras, in each model anew") {
  using Net = ls::Sequential<ls::Input<4>, UserDense<4>, UserReLU, UserDense<4>,
                             ls::Sequential<UserDense<4>, UserDense<4>>, UserReLU, UserDense<4>>;
  CHECK(ls::detail::unique_layer_names(Net::layers<ls::Shape<4>>) ==
        std::vector<std::string>{"input", "user_dense", "user_re_lu", "user_dense_1", "sequential",
                                 "user_re_lu_1", "user_dense_2"});
  const auto names = ls::detail::variable_names(Net::layers<ls::Shape<4>>, true);
  CHECK(names == std::vector<std::string>{
                     "user_dense/kernel", "user_dense/bias", "user_dense_1/kernel",
                     "user_dense_1/bias", "sequential/user_dense/kernel",
                     "sequential/user_dense/bias", "sequential/user_dense_1/kernel",
                     "sequential/user_dense_1/bias", "user_dense_2/kernel", "user_dense_2/bias"});
  CHECK(ls::detail::variable_names(Net::layers<ls::Shape<4>>, false).empty());
  CHECK(Net::layer_names<ls::Shape<4>>() ==
        std::vector<std::string>{"input", "user_dense", "user_re_lu", "user_dense_1",
                                 "sequential/user_dense", "sequential/user_dense_1", "user_re_lu_1",
                                 "user_dense_2"});
  CHECK(Net::layer_names<ls::Shape<4>>().size() == Net::layer_count);
}

TEST_CASE("class names: the layer's own, or its name in CamelCase") {
  CHECK(ls::detail::class_name_of({.name = "batch_norm_like_2d"}) == "BatchNormLike2d");
  CHECK(ls::detail::class_name_of({.name = "x", .class_name = "LSTMCell"}) == "LSTMCell");
  CHECK(ls::detail::class_name_of({.name = "user_dense"}) == "UserDense");
}

TEST_CASE(
    "variable names: those that a layer has from layers inside it are numbered, untrained ones "
    "after the trained") {
  using Net = ls::Sequential<Block, ls::Sequential<Block>>;
  constexpr auto layers = Net::layers<ls::Shape<4>>;
  CHECK(ls::detail::variable_names(layers, true) ==
        std::vector<std::string>{"block/kernel", "block/bias", "block/kernel_1", "block/bias_1",
                                 "sequential/block/kernel", "sequential/block/bias",
                                 "sequential/block/kernel_1", "sequential/block/bias_1"});
  CHECK(ls::detail::variable_names(layers, false) ==
        std::vector<std::string>{"block/bias_2", "sequential/block/bias_2"});
  CHECK(refusal<Block, ls::Sequential<Block>>() == "NO EXCEPTION");
}

TEST_CASE("variable order: layer by layer, the trained ones first, in containers too") {
  using Net = ls::Sequential<Block, ls::Sequential<Block, UserDense<4>>>;
  CHECK(ls::detail::variable_order(Net::layers<ls::Shape<4>>) ==
        std::vector<ls::VariablePlace>{{true, 0},
                                       {true, 1},
                                       {true, 2},
                                       {true, 3},
                                       {false, 0},
                                       {true, 4},
                                       {true, 5},
                                       {true, 6},
                                       {true, 7},
                                       {false, 1},
                                       {true, 8},
                                       {true, 9}});
}

TEST_CASE(
    "layer names: two layers of one name are refused, and both named, in a nested model too") {
  CHECK(refusal<UserDense<4>, UserDense<4>, ls::Sequential<UserDense<4>, UserReLU>>() ==
        "NO EXCEPTION");
  CHECK(contains(
      refusal<UserDense<4>, UserDense<4>, UserReLU, SecondUserDense>(),
      "compile: layer 1 (UserDense) and layer 3 (UserDense1) are both named 'user_dense_1'"));
  CHECK(contains(
      refusal<UserReLU,
              ls::Sequential<ls::Sequential<SecondUserDense, UserDense<4>, UserDense<4>>>>(),
      "layer 0 of 'sequential/sequential' (UserDense1) and layer 2 of 'sequential/sequential' "
      "(UserDense)"));
}

TEST_CASE("layer names: names that files cannot have are refused") {
  CHECK(
      contains(refusal<UserDense<4>, Nameless>(), "compile: layer 1 () is named '': it is empty"));
  CHECK(contains(refusal<Slash>(), "layer 0 (A/b) is named 'a/b': it has a slash in it"));
  CHECK(contains(refusal<Latin>(), "is named 'latin \\xe9': it is no UTF-8"));
}

using lockstep::LayerInfo;
using lockstep::detail::model_json;

namespace {

constexpr std::array<std::size_t, 3> image{4, 5, 1};
constexpr std::array<std::size_t, 1> ten{10};
constexpr std::array inner{LayerInfo{.name = "dense", .output_extents = ten},
                           LayerInfo{.name = "dense", .output_extents = ten}};

}  // namespace

TEST_CASE("model_json: class, name, type of numbers and shape of each layer, the batch as null") {
  const std::array layers{
      LayerInfo{.name = "input", .output_extents = image, .is_input = true},
      LayerInfo{.name = "user_dense", .output_extents = ten},
      LayerInfo{.name = "conv2d", .class_name = "Conv2D", .output_extents = image}};
  CHECK(model_json("net", layers, "float64") ==
        R"({"class_name": "Sequential", "config": {"name": "net", "layers": [)"
        R"({"class_name": "InputLayer", "config": {"name": "input", "dtype": "float64", )"
        R"("batch_shape": [null, 4, 5, 1]}}, )"
        R"({"class_name": "UserDense", "config": {"name": "user_dense", "dtype": "float64", )"
        R"("output_shape": [null, 10]}}, )"
        R"({"class_name": "Conv2D", "config": {"name": "conv2d", "dtype": "float64", )"
        R"("output_shape": [null, 4, 5, 1]}}]}})");
  CHECK(model_json("a \"net\"", {}, "float32") ==
        R"({"class_name": "Sequential", "config": {"name": "a \"net\"", "layers": []}})");
}

TEST_CASE("model_json: a Sequential inside is one there too, another container a single layer") {
  const std::array layers{
      LayerInfo{.name = "sequential", .output_extents = ten, .layers = inner, .layer_count = 2},
      LayerInfo{.name = "residual", .output_extents = ten, .layers = inner, .layer_count = 2}};
  const std::string dense = R"({"class_name": "Dense", "config": {"name": "dense)",
                    rest = R"(", "dtype": "float32", "output_shape": [null, 10]}})";
  CHECK(model_json("net", layers, "float32") ==
        R"({"class_name": "Sequential", "config": {"name": "net", "layers": [)"
        R"({"class_name": "Sequential", "config": {"name": "sequential", "layers": [)" +
            dense + rest + ", " + dense + "_1" + rest + "]}}, " +
            R"({"class_name": "Residual", "config": {"name": "residual)" + rest + "]}}");
}

namespace {

using Layers = std::vector<ls::detail::LayerNames>;

std::string refusal(const Layers& layers, const std::string& inside = {}) {
  return message_of<ls::ConfigurationError>([&] { ls::detail::check_layer_names(inside, layers); });
}

}  // namespace

TEST_CASE("name checks: layers and their variables") {
  CHECK(refusal({}) == "NO EXCEPTION");
  CHECK(refusal({{"a", "A", {"x", "y"}}, {"b", "B", {"x", "y"}}}) == "NO EXCEPTION");
  CHECK(refusal({{"sch\xC3\xB6n", "A", {}}}) == "NO EXCEPTION");
  CHECK(contains(refusal({{"a", "A", {}}, {"b", "B", {}}, {"a", "C", {}}}, "block"),
                 "compile: layer 0 of 'block' (A) and layer 2 of 'block' (C) are both named 'a'"));
  CHECK(contains(refusal({{"a", "A", {"x", "x"}}}), "two variables of layer 0 (A) are named 'x'"));
  CHECK(
      contains(refusal({{"a", "A", {""}}}), "a variable of layer 0 (A) is named '': it is empty"));
  CHECK(refusal({{"a", "A", {"query/kernel", "key/kernel", "key/part/kernel"}}}) == "NO EXCEPTION");
  CHECK(contains(refusal({{"a", "A", {"query//kernel"}}}),
                 "a variable of layer 0 (A) is named '': it is empty"));
  CHECK(contains(refusal({{"a", "A", {"kernel/"}}}),
                 "a variable of layer 0 (A) is named '': it is empty"));
  CHECK(contains(refusal({{std::string("a\0b", 3), "A", {}}}),
                 "is named 'a\\x00b': it has a NUL in it"));
}

TEST_CASE("name checks: the variables of a whole model") {
  const auto refused = [](std::vector<std::string> trained, std::vector<std::string> untrained) {
    return message_of<ls::ConfigurationError>(
        [&] { ls::detail::check_variable_names(trained, untrained); });
  };
  CHECK(refused({"a/x", "a/y"}, {"a/z"}) == "NO EXCEPTION");
  CHECK(contains(refused({"a/x", "a/y"}, {"a/y"}), "two variables of the model are named 'a/y'"));
}

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
