#include "lockstep/extra/parameter_server/served_fit.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extra/parameter_server/served.hpp"
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
namespace lsd = lockstep::detail;
using lsd::StatusBlock;

namespace {

/// A server's parameters: they begin as 10 * (server + 1), and each step subtracts the gradients. It
/// replies with twice the status that it is sent, as if two workers had sent the same one.
class Keeper final : public lsd::ShardKeeper {
 public:
  Keeper(int server, std::size_t elements, std::size_t status_size)
      : values_(elements, 10.F * static_cast<float>(server + 1)), status_size_(status_size) {}

  std::atomic<double> rate = -1;

  std::optional<std::string> difference(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> fit_difference(std::string_view, std::string_view) const override {
    return std::nullopt;
  }
  ls::DataType type() const override { return ls::DataType::float32; }
  std::size_t begin() const override { return 0; }
  std::span<std::byte> parameters() override { return std::as_writable_bytes(std::span(values_)); }
  std::size_t status_size() const override { return status_size_; }
  void apply(const Gradients& gradients) override {
    rate = gradients.learning_rate;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float gradient = 0;
      std::memcpy(&gradient, &gradients.values[i * sizeof gradient], sizeof gradient);
      values_[i] -= gradient;
    }
    for (double& number : gradients.status) number *= 2;
  }
  std::size_t state_bytes() const override { return 0; }
  void save(std::span<std::byte>) const override {}
  void load(std::span<const std::byte>) override {}
  ls::TrainingState backup(ls::TrainingState reused) const override { return reused; }
  void restore(const ls::TrainingState&) override {}
  std::uint64_t backup_bytes() const override { return 0; }

 private:
  std::vector<float> values_;
  const std::size_t status_size_;
};

struct Setup {
  MadeUpProgram program{100};
  lsd::Variables<float> variables{program};
  ls::AnyReplica replica{ls::any_collective(ls::Single{}), 0, 1};
  lsd::Workspace<float> workspace{
      program, [this](std::size_t bytes) { return replica.collective().allocate(bytes); }};
  lsd::Parts<float> parts{program, variables, workspace, replica};
  std::deque<Keeper> keepers{};
  std::deque<ServerOf> running{};
  std::optional<lsd::ParameterServers> servers{};
  std::optional<lsd::ParameterServerUpdater<float>> updater{};

  explicit Setup(bool in_rounds) {
    program.ends = {40, 100};
    ls::ParameterServerOptions options{};
    if (in_rounds) options.max_staleness = 0;
    std::vector<std::string> addresses;
    for (int i = 0; i < 2; ++i) {
      keepers.emplace_back(i, lsd::shard_range(variables, static_cast<std::size_t>(i), 2).size,
                           workspace.pack_status().size());
      addresses.push_back(running.emplace_back(keepers.back(), i, 2, 1, options).address());
    }
    servers.emplace(lsd::ParameterServers::Place{.servers = addresses}, options);
    updater.emplace(parts, *servers);
    REQUIRE(servers->client().begin(1, "").gives_state);
    for (std::size_t i = 0; i < 2; ++i) servers->client().put(i, {}, {});
    servers->is_in_fit = true;
    take_happened();
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() { servers->client().say_goodbye(); }

  void step() {
    auto data = tiny_batches(5, 5);
    data.begin({});
    lsd::train_step(parts, *updater, data, {});
  }
};

}  // namespace

TEST_CASE("ParameterServerUpdater: servers get the gradients, and give the parameters") {
  for (const bool in_rounds : {false, true}) {
    CAPTURE(in_rounds);
    Setup setup(in_rounds);
    CHECK(setup.updater->name() ==
          (in_rounds ? "parameter servers, in rounds" : "parameter servers, asynchronous"));
    setup.step();
    // One exchange after backward; this worker itself updates nothing.
    CHECK(take_happened() == "backward( ) ");
    for (const Keeper& keeper : setup.keepers) CHECK(keeper.rate == 0.5);
    CHECK_FALSE(setup.servers->is_current);  // slots and counters are with the servers

    const std::span<const float> values = setup.variables.parameters().values();
    const std::size_t first = setup.keepers.front().parameters().size() / sizeof(float);
    CHECK(first > 0);
    CHECK(first + setup.keepers.back().parameters().size() / sizeof(float) == values.size());
    for (std::size_t i = 0; i < 100; ++i)  // gradients of 1; behind them is padding
      CHECK(values[i] == (i < first ? 9.F : 19.F));

    // In rounds, the figures of the step are those of all workers.
    CHECK(setup.workspace.status()[StatusBlock::samples] == (in_rounds ? 10 : 5));
    CHECK(setup.workspace.status()[StatusBlock::loss_sum] == (in_rounds ? 10 : 5));
  }
}

TEST_CASE("ParameterServerUpdater: a step outside of fit is refused, and sends nothing") {
  Setup setup(false);
  setup.servers->is_in_fit = false;
  CHECK(message_of<ls::Error>([&] {
          setup.step();
        }).starts_with("ParameterServerStrategy: parameters are updated by fit alone"));
  for (const Keeper& keeper : setup.keepers) CHECK(keeper.rate == -1);
}
