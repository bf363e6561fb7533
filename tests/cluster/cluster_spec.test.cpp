#include "lockstep/cluster/cluster_spec.hpp"

#include <doctest/doctest.h>

using namespace lockstep;

TEST_SUITE("cluster_spec") {
  TEST_CASE("alone") {
    const Cluster alone;
    CHECK_NOTHROW(alone.validate());
    CHECK(alone.is_alone());
    CHECK(alone.world_size() == 1);
    CHECK(alone.rank() == 0);
    CHECK(alone.is_chief());
    CHECK_FALSE(alone.is_evaluator());
    CHECK(alone.addresses().empty());
  }

  TEST_CASE("the chief is rank 0 and the workers follow; without a chief, worker 0 is it") {
    const ClusterSpec with_chief{
        .chief = {"c:1"}, .worker = {"a:1", "b:1"}, .ps = {"p:1"}, .evaluator = {"e:1"}};
    const Cluster chief{with_chief, {TaskType::chief, 0}};
    const Cluster second{with_chief, {TaskType::worker, 1}};
    chief.validate();
    second.validate();
    CHECK(chief.rank() == 0);
    CHECK(chief.is_chief());
    CHECK(second.rank() == 2);
    CHECK_FALSE(second.is_chief());
    CHECK(second.world_size() == 3);
    CHECK(second.addresses() == std::vector<std::string>{"c:1", "a:1", "b:1"});

    const ClusterSpec workers{.chief = {}, .worker = {"a:1", "b:1"}, .ps = {}, .evaluator = {}};
    CHECK(Cluster{workers, {TaskType::worker, 0}}.is_chief());
    CHECK(Cluster{workers, {TaskType::worker, 1}}.rank() == 1);
  }

  TEST_CASE("an evaluator has no rank") {
    const ClusterSpec spec{.chief = {}, .worker = {"a:1"}, .ps = {}, .evaluator = {}};
    const Cluster evaluator{spec, {TaskType::evaluator, 0}};
    evaluator.validate();
    CHECK(evaluator.rank() == -1);
    CHECK_FALSE(evaluator.is_chief());
    CHECK(evaluator.world_size() == 1);
  }

  TEST_CASE("names that differ in case only are one address") {
    const ClusterSpec spec{.chief = {}, .worker = {"Host:1", "host:1"}, .ps = {}, .evaluator = {}};
    CHECK_THROWS_WITH_AS(spec.validate(),
                         "address 'host:1' is used twice, by worker 0 and worker 1; give each "
                         "task a different one",
                         ConfigurationError);
  }
}
