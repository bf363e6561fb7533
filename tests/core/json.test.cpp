#include "lockstep/core/json.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "lockstep/core/text.hpp"
#include "support/messages.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::detail;
using lockstep_test::message_of;

/// What read_json tells, as a text.
class Told final : public JsonEvents {
 public:
  std::string text;

  void begin_object() override { text += '{'; }
  void key(std::string name) override { text += name + ':'; }
  void end_object() override { text += '}'; }
  void begin_array() override { text += '['; }
  void end_array() override { text += ']'; }
  void value(JsonScalar value) override {
    std::visit(
        [&](const auto& scalar) {
          using Type = std::remove_cvref_t<decltype(scalar)>;
          if constexpr (std::is_same_v<Type, std::nullptr_t>)
            text += "null ";
          else if constexpr (std::is_same_v<Type, bool>)
            text += scalar ? "true " : "false ";
          else
            text += concat({scalar, " "});
        },
        value);
    if (std::holds_alternative<std::string>(value) && std::get<std::string>(value) == "stop")
      throw std::runtime_error("stopped");
  }
};

std::string told(std::string_view text) {
  Told events;
  read_json(text, events);
  return events.text;
}

TEST_SUITE("core: json") {
  TEST_CASE("events come in the order of the text, equal keys too") {
    CHECK(told(R"({"b": [1, -2, 2.5, "x"], "a": {}, "b": null, "c": [true, false]})") ==
          "{b:[1 -2 2.5 x ]a:{}b:null c:[true false ]}");
    CHECK(told(" 7 ") == "7 ");
  }

  TEST_CASE("each kind of scalar has its type") {
    struct Kinds final : JsonEvents {
      std::string indices;
      void begin_object() override {}
      void key(std::string) override {}
      void end_object() override {}
      void begin_array() override {}
      void end_array() override {}
      void value(JsonScalar value) override { indices += std::to_string(value.index()); }
    } kinds;
    read_json(R"([null, true, -1, 18446744073709551615, 1e3, "1"])", kinds);
    CHECK(kinds.indices == "012345");
  }

  TEST_CASE("what is no JSON is an error that says where") {
    const std::pair<std::string, std::string> places[] = {
        {"", "(byte 1)"}, {"{", "(byte 2)"}, {"[1,]", "(byte 4)"}, {"[1] 2", "(byte 5)"}};
    for (const auto& [text, place] : places) {
      const std::string message = message_of<JsonError>([&text = text] { (void)told(text); });
      CHECK(message.starts_with("parse error at line 1, column "));
      CHECK(message.ends_with(place));
    }
    CHECK_THROWS_AS(told("1e999"), JsonError);
  }

  TEST_CASE("nesting has a limit, which closed lists do not count in") {
    const auto nested = [](std::size_t levels) {
      return std::string(levels, '[') + std::string(levels, ']');
    };
    CHECK(told(nested(deepest_json)).size() == 2 * deepest_json);
    CHECK_THROWS_WITH_AS(told(nested(deepest_json + 1)), "nested deeper than 500 levels",
                         JsonError);
    CHECK_THROWS_AS(told(std::string(100'000, '[')), JsonError);
    std::string wide = "[";
    for (int i = 0; i < 1000; ++i) wide += R"([{"a": 1}], )";
    CHECK_NOTHROW(told(wide + "0]"));
  }

  TEST_CASE("an exception of the receiver ends the reading") {
    CHECK_THROWS_WITH(told(R"(["stop", 1])"), "stopped");
  }
}

}  // namespace
