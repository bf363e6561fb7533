#include "lockstep/training/model_state.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/mirrored.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/moving_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::restore_state;
using ls::detail::save_state;
using ls::detail::state_bytes;
using Trainer = ls::detail::Trainer<float>;

namespace {

/// Has been trained.
void spoil(Trainer& trainer) {
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto slice : trainer.variables().slots()[i].slices())
      for (float& value : slice) value = static_cast<float>(i) + 0.5F;
  trainer.workspace(0).state().slices()[0][1] = 77;
  trainer.variables().iterations = 12;
  trainer.variables().set_learning_rate(0.25);
  trainer.variables().seed = ~std::uint64_t{0};
  trainer.variables().next_pass = 4;
}

}  // namespace

TEST_CASE("model_state: what is saved comes back, of all replicas") {
  MovingTrainer from(1);
  spoil(from.trainer);
  const ls::TrainingState saved = save_state(from.trainer);
  CHECK(saved.scalar == "float32");
  CHECK(saved.world_size == 1);
  CHECK(saved.iterations == 12);
  CHECK(saved.data_iteration == 4);
  CHECK(saved.parameters.size() == 4);
  REQUIRE(saved.slots.size() == 8);
  CHECK(saved.slots[5].name == "user_dense/bias/slot_1");
  REQUIRE(saved.state.size() == 1);

  ls::MirroredStrategy mirrored({.replicas = 2});
  Trainer to(moving_program, ls::any_strategy(mirrored), 2);
  const CapturedStderr output;
  restore_state(to, saved);
  ls::TrainingState again = save_state(to);
  again.world_size = 1;
  CHECK(again == saved);
  CHECK(to.variables().parameters_crc32c() == from.trainer.variables().parameters_crc32c());
  CHECK(to.variables().next_pass == 4);
  for (std::size_t i = 0; i < 2; ++i) CHECK(to.workspace(i).state().slices()[0][1] == 77);
}

TEST_CASE("model_state: after a pass that was begun the next one is a new one") {
  MovingTrainer setup(1);
  spoil(setup.trainer);
  ls::TrainingState saved = save_state(setup.trainer);
  saved.data_position = 1;
  restore_state(setup.trainer, saved);
  CHECK(setup.trainer.variables().next_pass == 5);
}

TEST_CASE("model_state: saves into the memory of an earlier state, and says how much that is") {
  MovingTrainer setup(1);
  ls::TrainingState saved = save_state(setup.trainer);
  const std::byte* const memory = saved.slots[3].bytes.data();
  spoil(setup.trainer);
  saved = save_state(setup.trainer, std::move(saved));
  CHECK(saved.slots[3].bytes.data() == memory);
  CHECK(saved == save_state(setup.trainer));
  const auto& variables = setup.trainer.variables();
  CHECK(state_bytes(setup.trainer) == 3 * variables.parameters().values().size_bytes() +
                                          setup.trainer.workspace(0).state().values().size_bytes());
}

TEST_CASE("model_state: a saved state that does not fit is refused, and nothing is changed") {
  MovingTrainer setup(1);
  Trainer& trainer = setup.trainer;
  spoil(trainer);
  ls::TrainingState saved = save_state(trainer);
  const ls::TrainingState before = saved;
  saved.iterations = 99;
  saved.seed = 99;
  for (ls::SavedArray& array : saved.parameters)
    for (std::byte& byte : array.bytes) byte = std::byte{1};
  const auto refused = [&](auto change) {
    ls::TrainingState changed = saved;
    change(changed);
    CHECK_THROWS_AS(restore_state(trainer, changed), ls::ConfigurationError);
    CHECK(save_state(trainer) == before);
  };
  refused([](auto& s) { s.scalar = "float64"; });
  refused([](auto& s) { s.signature += "\nmetric: another"; });
  refused([](auto& s) { s.parameters.pop_back(); });
  refused([](auto& s) { s.parameters.push_back(s.parameters.back()); });
  refused([](auto& s) { s.slots.pop_back(); });
  refused([](auto& s) { s.parameters.back().extents = {1}; });
  refused([](auto& s) { s.slots.back().bytes.pop_back(); });
  refused([](auto& s) { s.state.clear(); });
  restore_state(trainer, saved);
  CHECK(trainer.variables().iterations == 99);
}

namespace {

constexpr std::array variables{ls::Variable{"kernel", {2, 3}, nullptr},
                               ls::Variable{"bias", {3}, nullptr}};

struct Arrays {
  std::vector<float> kernel = {1, 2, 3, 4, 5, 6}, bias = {7, 8, 9};
  ls::detail::ArrayList list() {
    const std::array<std::span<float>, 2> slices{kernel, bias};
    return ls::detail::array_list<float>(variables, {"dense/kernel", "dense/bias"}, slices);
  }
};

}  // namespace

TEST_CASE("saved arrays: names, shapes and bytes come back, from any place in the list") {
  Arrays source;
  std::vector<ls::SavedArray> saved(1);
  ls::detail::save_arrays(saved, 1, source.list(), "/slot_0");
  REQUIRE(saved.size() == 3);
  CHECK(saved[1].name == "dense/kernel/slot_0");
  CHECK(saved[1].extents == std::vector<std::uint64_t>{2, 3});
  CHECK(saved[2].bytes.size() == 12);

  const std::byte* const memory = saved[1].bytes.data();
  source.kernel[0] = 10;
  ls::detail::save_arrays(saved, 1, source.list(), "/slot_0");
  CHECK(saved.size() == 3);
  CHECK(saved[1].bytes.data() == memory);  // it serves again

  Arrays target{.kernel = std::vector<float>(6), .bias = std::vector<float>(3)};
  ls::detail::load_arrays(saved, 1, target.list(), true);
  CHECK(target.kernel == std::vector<float>(6));  // only checked
  ls::detail::load_arrays(saved, 1, target.list(), false);
  CHECK(target.kernel == source.kernel);
  CHECK(target.bias == source.bias);
}

TEST_CASE("saved arrays: the first that differs is named") {
  Arrays arrays;
  std::vector<ls::SavedArray> saved;
  ls::detail::save_arrays(saved, 0, arrays.list());
  const auto message = [&](auto change) {
    auto changed = saved;
    change(changed);
    return message_of<ls::ConfigurationError>(
        [&] { ls::detail::load_arrays(changed, 0, arrays.list(), true); });
  };
  CHECK(message([](auto&) {}) == "NO EXCEPTION");
  CHECK(contains(message([](auto& s) { s.pop_back(); }), "no array for dense/bias (3)"));
  const std::string shape = message([](auto& s) { s[0].extents = {3, 2}; });
  CHECK(contains(
      shape, "expected dense/kernel (2, 3) of float32, the saved state has 'dense/kernel' (3, 2)"));
  CHECK(contains(message([](auto& s) { s[0].extents = {6}; }), "(6)"));
  CHECK(contains(message([](auto& s) { s[0].extents.clear(); }), "()"));
  CHECK(contains(message([](auto& s) { s[1].bytes.resize(24); }), "expected dense/bias (3)"));
}

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
