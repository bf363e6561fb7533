#include "lockstep/optimizers/keras_slots.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/text.hpp"
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace ls = lockstep;
using Part = ls::KerasSlot::Part;
constexpr auto pytorch = ls::MomentumForm::pytorch;

namespace {

constexpr std::array variables{ls::Variable{"kernel", {4, 3}, nullptr},
                               ls::Variable{"bias", {3}, nullptr},
                               ls::Variable{"embeddings", {5, 1}, nullptr}};
const std::vector<std::string> names{"dense/kernel", "dense/bias", "embedding/embeddings"};

/// "2.0 0.0 1.0": variable and slot, for Keras's order embedding, kernel, bias; with what differs.
template <class O>
std::string list_of(const O& optimizer, std::int64_t iterations = 0) {
  ls::KerasSlots list(variables, names, {2, 0, 1}, iterations);
  optimizer.keras_slots(list);
  std::string text;
  for (const ls::KerasSlot& slot : list.list()) {
    static constexpr const char* parts[] = {"",          "rows",         "columns",
                                            "row_means", "column_means", "unread"};
    if (!text.empty()) text += ' ';
    if (slot.part == Part::number) {
      text += ls::concat({"=", slot.added});
      continue;
    }
    text += ls::concat({slot.variable, ".", slot.slot, parts[static_cast<std::size_t>(slot.part)]});
    if (slot.added != 0) text += ls::concat({"+", slot.added});
    if (slot.has_rates) text += "*";
  }
  return text;
}

template <class O>
concept IsInKeras =
    requires(const O& optimizer, ls::KerasSlots& list) { optimizer.keras_slots(list); };

}  // namespace

TEST_CASE("KerasSlots: the slots of each optimizer in Keras's order") {
  const std::string one = "2.0 0.0 1.0", two = "2.0 2.1 0.0 0.1 1.0 1.1";
  CHECK(list_of(ls::SGD{}).empty());
  CHECK(list_of(ls::SGD{.momentum = 0.9}) == one);
  CHECK(list_of(ls::SGD{.momentum = 0.9, .momentum_form = pytorch}) == "2.0* 0.0* 1.0*");
  CHECK(list_of(ls::Adam{}) == two);
  CHECK(list_of(ls::Adam{.amsgrad = true}) == two + " 2.2 0.2 1.2");
  CHECK(list_of(ls::AdamW{.amsgrad = true}) == two + " 2.2 0.2 1.2");
  CHECK(list_of(ls::Adamax{}) == two);
  CHECK(list_of(ls::Adadelta{}) == two);
  CHECK(list_of(ls::Lamb{}) == two);
  CHECK(list_of(ls::Adagrad{}) == one);
  CHECK(list_of(ls::Lion{}) == one);
  CHECK(list_of(ls::Nadam{.beta_1 = 0.5}) == two + " =1");
  CHECK(list_of(ls::Nadam{.beta_1 = 0.5}, 1) == two + " =0.26");  // 0.5 * (1 - 0.5 * 0.96)
  CHECK(list_of(ls::RMSprop{}) == one);
  CHECK(list_of(ls::RMSprop{.centered = true}) == one + " 2.1 0.1 1.1");
  CHECK(list_of(ls::RMSprop{.momentum = 0.5}) == one + " 2.1 0.1 1.1");
  CHECK(list_of(ls::RMSprop{.momentum = 0.5, .centered = true, .momentum_form = pytorch}) ==
        one + " 2.2* 0.2* 1.2* 2.1 0.1 1.1");
  CHECK(list_of(ls::Ftrl{.initial_accumulator_value = 0.25}) ==
        "2.0+0.25 2.1 0.0+0.25 0.1 1.0+0.25 1.1");
  CHECK(list_of(ls::Adafactor{}) ==
        "2.0row_means 2.0column_means 2.0 0.0rows 0.0columns 0.0unread =0 =0 1.0");
  CHECK(list_of(ls::Muon{}) == "2.0 2.1 0.0 1.0 1.1");
  CHECK(list_of(ls::Muon{.exclude_layers = {"dense"}, .exclude_embeddings = false}) ==
        "2.0 0.0 0.1 1.0 1.1");
  CHECK_FALSE(IsInKeras<ls::LARS>);
  CHECK(IsInKeras<ls::Lion>);
}
