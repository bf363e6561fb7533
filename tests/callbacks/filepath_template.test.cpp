#include "lockstep/callbacks/filepath_template.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;

namespace {

/// Of epoch 3 (the third), loss 0.125 and val_loss 1234.5678.
std::string path_of(std::string_view text, std::optional<std::int64_t> batch = std::nullopt) {
  ls::Logs logs;
  logs.set("loss", 0.125);
  logs.set("val_loss", 1234.5678);
  logs.set("largest", -std::numeric_limits<double>::max());
  return ls::FilepathTemplate(text).format(2, batch, logs);
}
std::string refusal(std::string_view text, std::optional<std::int64_t> batch = std::nullopt) {
  return message_of<ls::ConfigurationError>([&] { (void)path_of(text, batch); });
}

}  // namespace

TEST_CASE("filepath: as Python's str.format has it") {
  CHECK(path_of("run/model") == "run/model");
  CHECK(path_of("{epoch}") == "3");
  CHECK(path_of("a/{epoch:02d}-{val_loss:.2f}.npz") == "a/03-1234.57.npz");
  CHECK(path_of("{epoch:4d}|{epoch:04d}|{epoch:d}") == "   3|0003|3");
  CHECK(path_of("{epoch:.1f}") == "3.0");
  CHECK(path_of("{loss}{loss:e}{loss:g}{loss:f}") == "0.1251.250000e-010.1250.125000");
  CHECK(path_of("{loss:8.3f}{loss:08.3f}{loss:.0f}") == "   0.1250000.1250");
  CHECK(path_of("{{{epoch}}}") == "{3}");
  CHECK(path_of("{epoch}-{batch:03d}", 9) == "3-010");
  CHECK(path_of("{largest:.99f}").size() == 1 + 309 + 1 + 99);
  CHECK(path_of("{largest:999g}").size() == 999);
  CHECK(path_of("") == "");
}

TEST_CASE("filepath: a missing figure is an error that lists the existing ones") {
  CHECK(contains(refusal("{val_accuracy:.2f}"),
                 "'val_accuracy' is not there; available: epoch, loss, val_loss"));
  CHECK(contains(refusal("{batch}"), "'batch' is not there; available: epoch, loss"));
  CHECK(contains(refusal("{acc}", 3), "available: epoch, batch, loss"));
  CHECK(contains(refusal("{loss:02d}"), "'loss' is no whole number"));
  CHECK(contains(refusal("{epoch:.2d}"), "'epoch' is a whole number and has no precision"));
}

TEST_CASE("filepath: a text that is no template is an error before training begins") {
  for (const char* text : {"{", "}", "a{epoch", "{}", "{:d}", "{epoch:x}", "{epoch:2}",
                           "{epoch:dd}", "{loss:.f}", "{loss:.100f}", "{loss:1000f}", "{loss:-3f}",
                           "{loss:%f}", "{loss:*f}", "{epoch:s}", "{epoch:n}"}) {
    CAPTURE(text);
    CHECK(contains(message_of<ls::ConfigurationError>([&] { ls::FilepathTemplate{text}; }),
                   "expected for example"));
  }
}
