#include "lockstep/network/layer_names.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>

#include "lockstep/layers/layer_info.hpp"

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
