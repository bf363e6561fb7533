#include "lockstep/training/model_state.hpp"

#include <doctest/doctest.h>

#include <string>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::string signature(const std::string& optimizer,
                      const std::string& loss = "mean_squared_error") {
  return "input: (4)\noutput: (3)\nloss: " + loss + "\noptimizer: " + optimizer +
         "\nmetric: accuracy";
}

/// The message for a state of the first and a program of the second signature; empty: they belong
/// together.
std::string message(const std::string& saved, const std::string& mine, bool allow_changes = false) {
  const std::string text = message_of<ls::ConfigurationError>(
      [&] { (void)ls::detail::check_signature(saved, mine, {.allow_changes = allow_changes}); });
  return text == "NO EXCEPTION" ? "" : text;
}

}  // namespace

TEST_CASE("check_signature: the learning rate may differ") {
  CHECK(message(signature("SGD(learning_rate=0.1, momentum=0.9)"),
                signature("SGD(learning_rate=1e-05, momentum=0.9)")) == "");
  CHECK(message(signature("Own(a=1, learning_rate=0.1)"), signature("Own(a=1, learning_rate=2)")) ==
        "");
  CHECK(message(signature("Own(learning_rate=0.1"), signature("Own(learning_rate=2")) ==
        "");  // whatever a user writes
  CHECK(
      message(signature(
                  "SGD(learning_rate=CosineDecay(initial_learning_rate=1, alpha=0), momentum=0.9)"),
              signature("SGD(learning_rate=0.1, momentum=0.9)")) == "");
  CHECK(message(signature("Own"), signature("Own")) == "");
  CHECK(message(signature("Own(final_learning_rate=1, learning_rate=2)"),
                signature("Own(final_learning_rate=1, learning_rate=3)")) == "");
}

TEST_CASE("check_signature: nothing else may, and the first difference is named") {
  CHECK(contains(message(signature("SGD(learning_rate=0.1, momentum=0.9)"),
                         signature("SGD(learning_rate=0.2, momentum=0.8)")),
                 "the saved state has 'optimizer: SGD(learning_rate=..., momentum=0.9)', this "
                 "program has 'optimizer: "
                 "SGD(learning_rate=..., momentum=0.8)'"));
  CHECK(contains(message(signature("SGD(learning_rate=Decay(a=1, b=f(2)), momentum=0.9)"),
                         signature("SGD(learning_rate=0.1, momentum=0.8)")),
                 "SGD(learning_rate=..., momentum=0.9)"));
  CHECK(contains(message(signature("SGD(learning_rate=0.1)"), signature("Adam(learning_rate=0.1)")),
                 "'optimizer: SGD("));
  CHECK(contains(message(signature("Own", "a"), signature("Own", "b")),
                 "'loss: a', this program has 'loss: b'"));
  CHECK(contains(
      message(signature("Own", "a(learning_rate=1)"), signature("Own", "a(learning_rate=2)")),
      "loss: a"));
  CHECK(contains(message(signature("Own(final_learning_rate=1, learning_rate=2)"),
                         signature("Own(final_learning_rate=3, learning_rate=2)")),
                 "final_learning_rate=1"));
  CHECK(contains(message(signature("Own") + "\nmetric: m(learning_rate=1)",
                         signature("Own") + "\nmetric: m(learning_rate=2)"),
                 "metric: m(learning_rate=1)"));
  CHECK(contains(message(signature("Own") + "\nmetric: b", signature("Own")),
                 "'metric: b', this program has ''"));
}

TEST_CASE("check_signature: other numbers of the same optimizer, where they are allowed") {
  const auto with = [](const std::string& saved, const std::string& mine) {
    return message(signature(saved), signature(mine), true);
  };
  const std::string saved =
      "SGD(learning_rate=0.1, momentum=0.9, nesterov=false, momentum_form=keras)";
  CHECK(with(saved,
             "SGD(learning_rate=1, momentum=0.5, nesterov=false, weight_decay=1e-05, "
             "momentum_form=pytorch, clipnorm=1, exclude_from_weight_decay=[bias, beta])") == "");
  CHECK(ls::detail::check_signature(signature(saved),
                                    signature("SGD(learning_rate=1, momentum=0.5, nesterov=false, "
                                              "momentum_form=keras)"),
                                    {.allow_changes = true})
            .in_options ==
        "'optimizer: SGD(learning_rate=..., momentum=0.9, nesterov=false, momentum_form=keras)', "
        "this program has 'optimizer: SGD(learning_rate=..., momentum=0.5, nesterov=false, "
        "momentum_form=keras)'");
  CHECK(contains(with(saved, "SGD(learning_rate=0.1, momentum=0.9, nesterov=true)"),
                 "nesterov=false"));
  CHECK(contains(with(saved, "Adam(learning_rate=0.1)"), "'optimizer: Adam("));
  CHECK(contains(with("A(ema_momentum=0.9)", "A(clipnorm=1)"), "ema_momentum"));
  CHECK(contains(with("A(gradient_accumulation_steps=2)", "A(gradient_accumulation_steps=3)"),
                 "steps=2"));
}
