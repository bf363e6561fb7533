#include "support/tiny_trainer.hpp"

#include <doctest/doctest.h>

TEST_CASE("TinyTrainer: a tiny model learns its data") {
  lockstep_test::TinyTrainer trainer;
  const lockstep_test::TinyData data(120);
  const auto history = trainer.fit(data, {.batch_size = 12, .epochs = 40});
  CHECK(history["loss"].back() < 0.6 * history["loss"].front());
  CHECK(history["accuracy"].back() > 0.7);
}
