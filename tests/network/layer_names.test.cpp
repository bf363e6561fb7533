#include "lockstep/network/layer_names.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
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
