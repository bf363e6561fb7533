#include "lockstep/network/layer_names.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

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
