#include "lockstep/extra/parameter_server/served_fit.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "step/step_testing.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::detail::StatusBlock;

namespace {

/// Two servers without a network. The parameters of server i are 10 * (i + 1) less the sum of the
/// gradients; the status that they reply with is that of two workers that have done the same.
class TwoServers final : public ls::ParameterServers {
 public:
  explicit TwoServers(bool in_rounds)
      : ParameterServers({.rank = 0,
                          .workers = 2,
                          .server = -1,
                          .servers = {"a:1", "b:1"},
                          .in_rounds = in_rounds}) {}

  std::vector<std::size_t> elements{};  ///< sent to each server in the last step
  double rate = -1;

  ls::detail::PsBegun begin(std::uint64_t, std::string_view) override { return {}; }
  void put(std::size_t, std::span<const std::byte>, std::span<const std::byte>) override {}
  void pull(std::size_t, std::span<std::byte>) override {}
  void step(double learning_rate, bool, std::span<const std::byte>, std::span<const double> status,
            std::span<const ls::detail::PsExchange> exchanges) override {
    note("step");
    rate = learning_rate;
    elements.clear();
    float start = 0;
    for (const ls::detail::PsExchange& exchange : exchanges) {
      start += 10;
      elements.push_back(exchange.gradients.size() / sizeof(float));
      REQUIRE(exchange.parameters.size() == exchange.gradients.size());
      for (std::size_t at = 0; at < exchange.gradients.size(); at += sizeof(float)) {
        float gradient = 0;
        std::memcpy(&gradient, &exchange.gradients[at], sizeof gradient);
        const float parameter = start - gradient;
        std::memcpy(&exchange.parameters[at], &parameter, sizeof parameter);
      }
      REQUIRE(exchange.status.size() == status.size());
      for (std::size_t i = 0; i < status.size(); ++i) exchange.status[i] = 2 * status[i];
    }
  }
  void finish() override {}
  bool settle(std::size_t, bool, std::span<const std::byte>, std::span<std::byte>) override {
    return false;
  }
  void abandon() noexcept override {}
  void cannot_begin(std::string_view) noexcept override {}
  void say_goodbye() noexcept override {}
  void serve(ls::detail::ShardKeeper&) override {}
};

struct Setup {
  TwoServers servers;
  MadeUpProgram program{100};
  ls::detail::Variables<float> variables{program};
  ls::AnyReplica replica{ls::any_collective(ls::Single{}), 0, 1};
  ls::detail::Workspace<float> workspace{
      program, [this](std::size_t bytes) { return replica.collective().allocate(bytes); }};
  ls::detail::Parts<float> parts{program, variables, workspace, replica};
  ls::detail::ParameterServerUpdater<float> updater{parts, servers};

  explicit Setup(bool in_rounds) : servers(in_rounds) {
    program.ends = {40, 100};
    servers.is_in_fit = true;
    take_happened();
  }

  void step() {
    auto data = tiny_batches(5, 5);
    data.begin({});
    ls::detail::train_step(parts, updater, data, {});
  }
};

}  // namespace

TEST_CASE("ParameterServerUpdater: servers get the gradients, and give the parameters") {
  for (const bool in_rounds : {false, true}) {
    CAPTURE(in_rounds);
    Setup setup(in_rounds);
    CHECK(setup.updater.name() ==
          (in_rounds ? "parameter servers, in rounds" : "parameter servers, asynchronous"));
    setup.step();
    // One exchange after backward; this worker itself updates nothing.
    CHECK(take_happened() == "backward( ) step ");
    CHECK(setup.servers.rate == 0.5);
    CHECK_FALSE(setup.servers.is_current);  // slots and counters are with the servers

    const std::span<const float> values = setup.variables.parameters().values();
    REQUIRE(setup.servers.elements.size() == 2);
    const std::size_t first = setup.servers.elements[0];
    CHECK(first > 0);
    CHECK(first + setup.servers.elements[1] == values.size());
    for (std::size_t i = 0; i < 100; ++i)  // gradients of 1; behind them is padding
      CHECK(values[i] == (i < first ? 9.F : 19.F));

    // In rounds, the figures of the step are those of all workers.
    CHECK(setup.workspace.status()[StatusBlock::samples] == (in_rounds ? 10 : 5));
    CHECK(setup.workspace.status()[StatusBlock::loss_sum] == (in_rounds ? 10 : 5));
  }
}

TEST_CASE("ParameterServerUpdater: a step outside of fit is refused, and sends nothing") {
  Setup setup(false);
  setup.servers.is_in_fit = false;
  CHECK(message_of<ls::Error>([&] {
          setup.step();
        }).starts_with("ParameterServerStrategy: parameters are updated by fit alone"));
  CHECK(setup.servers.elements.empty());
}
