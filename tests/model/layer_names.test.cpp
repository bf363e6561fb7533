#include "lockstep/model/layer_names.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "model/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

struct BatchNormLike {
  static constexpr std::string_view name = "batch_norm_like_2d";
};
struct Named {
  [[maybe_unused]] static constexpr std::string_view name = "x";
  static constexpr std::string_view class_name = "LSTMCell";
};

}  // namespace

TEST_CASE("layer names: repeated ones are numbered as in Keras, in each model anew") {
  using Net = ls::Sequential<ls::Input<4>, UserDense<4>, UserReLU, UserDense<4>,
                             ls::Sequential<UserDense<4>, UserDense<4>>, UserReLU, UserDense<4>>;
  CHECK(ls::detail::unique_layer_names(Net::Chain<ls::Shape<4>>::List{}) ==
        std::vector<std::string>{"input", "user_dense", "user_re_lu", "user_dense_1", "sequential", "user_re_lu_1",
                                 "user_dense_2"});
  const auto names = ls::detail::variable_names<true>(Net::Chain<ls::Shape<4>>::List{});
  CHECK(names == std::vector<std::string>{"user_dense/kernel", "user_dense/bias", "user_dense_1/kernel",
                                          "user_dense_1/bias", "sequential/user_dense/kernel",
                                          "sequential/user_dense/bias", "sequential/user_dense_1/kernel",
                                          "sequential/user_dense_1/bias", "user_dense_2/kernel", "user_dense_2/bias"});
  CHECK(ls::detail::variable_names<false>(Net::Chain<ls::Shape<4>>::List{}).empty());
  CHECK(Net::layer_names<ls::Shape<4>>() ==
        std::vector<std::string>{"input", "user_dense", "user_re_lu", "user_dense_1", "sequential/user_dense",
                                 "sequential/user_dense_1", "user_re_lu_1", "user_dense_2"});
  CHECK(Net::layer_names<ls::Shape<4>>().size() == Net::layer_count);
}

TEST_CASE("class names: the layer's own, or its name in CamelCase") {
  CHECK(ls::detail::class_name<BatchNormLike>() == "BatchNormLike2d");
  CHECK(ls::detail::class_name<Named>() == "LSTMCell");
  CHECK(ls::detail::class_name<UserDense<1>>() == "UserDense");
}
