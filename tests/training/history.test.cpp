#include "lockstep/training/history.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_SUITE_BEGIN("Keras: fit and evaluate and predict");

TEST_CASE("History: one value per epoch for each key, in the order in which keys appear") {
  ls::History history;
  ls::Logs logs;
  logs.set("loss", 2);
  history.append(3, logs);
  logs.set("loss", 1);
  logs.set("val_loss", 5);
  history.append(4, logs);
  CHECK(history.epoch == std::vector<int>{3, 4});
  CHECK(history["loss"] == std::vector<double>{2, 1});
  CHECK(history["val_loss"] == std::vector<double>{5});
  CHECK(history.contains("loss"));
  CHECK_FALSE(history.contains("accuracy"));
  std::vector<std::string> keys;
  for (const auto& [key, values] : history) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"loss", "val_loss"});
}

TEST_CASE("History: a missing key is an error that names those that there are") {
  ls::History history;
  CHECK(contains(message_of<ls::Error>([&] { (void)history["loss"]; }),
                 "no 'loss'; available: nothing, as no epoch was run"));
  ls::Logs logs;
  logs.set("loss", 1);
  logs.set("accuracy", 1);
  history.append(0, logs);
  CHECK(contains(message_of<ls::Error>([&] { (void)history["acc"]; }),
                 "no 'acc'; available: loss, accuracy"));
}

TEST_CASE(
    "History: epochs that are done again are forgotten, in series with a value every second epoch, "
    "too") {
  ls::History history;
  for (int epoch = 0; epoch < 4; ++epoch) {
    ls::Logs logs;
    logs.set("loss", epoch);
    if (epoch % 2 == 1) logs.set("val_loss", 10 * epoch);
    history.append(epoch, logs);
  }
  history.truncate(4);
  CHECK(history.epoch.size() == 4);
  history.truncate(2);
  CHECK(history.epoch == std::vector<int>{0, 1});
  CHECK(history["loss"] == std::vector<double>{0, 1});
  CHECK(history["val_loss"] == std::vector<double>{10});
}

TEST_SUITE_END();
