#include "lockstep/core/logs.hpp"

#include <doctest/doctest.h>

#include <string>

namespace ls = lockstep;

TEST_CASE("Logs keep the order of the first set") {
  ls::Logs logs;
  CHECK(logs.empty());
  logs.set("loss", 1);
  logs.set("accuracy", 0.5);
  logs.set("loss", 0.25);
  std::string order;
  for (const auto& [name, value] : logs) order += name + "=" + std::to_string(value) + ";";
  CHECK(order == "loss=0.250000;accuracy=0.500000;");
  CHECK(logs.at("loss") == 0.25);
  CHECK(logs["loss"] == 0.25);
  CHECK(*logs.find("accuracy") == 0.5);
  CHECK(logs.find("val_loss") == nullptr);
  CHECK(logs.contains("loss"));
  logs.clear();
  CHECK(logs.empty());
}

TEST_CASE("Logs: a missing name is an error that lists the existing names") {
  ls::Logs logs;
  CHECK_THROWS_WITH_AS((void)logs.at("loss"), "Logs have no 'loss'; available: nothing", ls::Error);
  logs.set("loss", 1);
  logs.set("accuracy", 1);
  CHECK_THROWS_WITH_AS((void)logs.at("val_loss"),
                       "Logs have no 'val_loss'; available: loss, accuracy", ls::Error);
}
