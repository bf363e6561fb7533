#include "lockstep/model/budget.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/core/traffic.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/updaters/sharded.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "support/captured_stderr.hpp"
#include "support/free_addresses.hpp"
#include "support/model_testing.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

namespace ls = lockstep;
using ls::Budget;

namespace {

/// The tutorial's.
using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;
using Normalized =
    ls::Sequential<ls::Input<8, 8, 3>, ls::Frozen<ls::Conv2D<5, 3>>, ls::BatchNormalization<>,
                   ls::Activation<ls::ReLU>, ls::Residual<ls::Conv2D<5, 1>, ls::Dropout<0.5>>,
                   ls::GlobalAveragePooling2D, ls::Dense<3>>;
using Text = ls::Sequential<
    ls::Input<12>,
    ls::TiedHead<
        ls::Embedding<40, 16>, ls::PositionEmbedding<12>,
        ls::Repeat<2, ls::Residual<ls::LayerNormalization<>, ls::MultiHeadAttention<2, 8>>>>>;
using Recurrent = ls::Sequential<ls::Input<9>, ls::Embedding<40, 6>, ls::Bidirectional<ls::LSTM<5>>,
                                 ls::Dense<4>>;
using Line = ls::Sequential<ls::Input<3>, ls::Dense<5>>;

static_assert(ls::budget<Cnn>(64, ls::Adam{}, 4).memory < 64 * ls::MiB);
static_assert(ls::budget<Cnn>(64, ls::Adam{}).parameters == Cnn::parameter_count);
// By hand: 26 x 26 places of 3 x 3 taps and 32 filters, without a gradient of the input; then
// 21,632 x 128 and 128 x 10.
static_assert(ls::budget<Cnn>(64, ls::SGD{}).flop ==
              64 * 2 * (2 * 26 * 26 * 9 * 32 + 3 * (21'632 * 128 + 128 * 10)));
static_assert(ls::budget<Cnn>(64, ls::SGD{}, 4).flop == ls::budget<Cnn>(16, ls::SGD{}).flop);
static_assert(ls::budget<Cnn>(65, ls::SGD{}, 4).samples == 17);

/// What a step with such a batch has allocated is what the budget says.
template <class Net, class T, class Loss, class O, class Compared = Loss>
void check_step(const O& optimizer, const Loss& loss) {
  CAPTURE(Net::InputShape::to_string());
  const ls::detail::Compiled<Net, T, Loss, O, ls::Accuracy> program(loss, optimizer, {});
  for (const std::size_t samples : {1u, 15u, 16u, 17u, 64u}) {
    CAPTURE(samples);
    const Budget budget = ls::budget<Net, Compared, T>(samples, optimizer);
    const ls::detail::Variables<T> variables(program);
    ls::detail::Workspace<T> workspace(program,
                                       [](std::size_t bytes) { return ls::Buffer(bytes); });
    workspace.resize(samples);
    CHECK(budget.arena == variables.parameters().values().size_bytes());
    CHECK(budget.gradients == workspace.gradients().values().size_bytes());
    std::size_t slots = 0;
    for (const ls::Arena<T>& slot : variables.slots()) slots += slot.values().size_bytes();
    slots += 2 * variables.accumulated().values().size_bytes();  // and those of AccumulatedUpdater
    CHECK(budget.slots == slots);
    CHECK(budget.state == workspace.state().values().size_bytes() +
                              workspace.state_before_step().values().size_bytes());
    CHECK(budget.batch + budget.activations + budget.workspace == workspace.batch_bytes());
    CHECK(budget.memory ==
          budget.arena + budget.gradients + budget.slots + budget.state + workspace.batch_bytes());
    CHECK(budget.parameters == Net::parameter_count);
  }
}

template <class Net>
void check_steps() {
  const ls::SparseCategoricalCrossentropy loss{.from_logits = true};
  using Loss = ls::SparseCategoricalCrossentropy;
  check_step<Net, float, Loss, ls::SGD, void>(ls::SGD{}, loss);
  check_step<Net, double, Loss, ls::Adam, void>(ls::Adam{.amsgrad = true}, loss);
  check_step<Net, float>(ls::AdamW{.use_ema = true, .gradient_accumulation_steps = 3}, loss);
}

/// The program `peak` says both, in bytes.
void check_peak(const lockstep_test::Finished& finished) {
  CAPTURE(finished.output);
  REQUIRE(finished.exit_code == 0);
  const std::size_t line = finished.output.find_last_of('\n', finished.output.size() - 2) + 1;
  std::istringstream numbers(finished.output.substr(line));
  double said = 0, measured = 0;
  numbers >> said >> measured;
  CHECK(said > 100e6);
  CHECK(measured == doctest::Approx(said).epsilon(0.05));
}

}  // namespace

TEST_SUITE("budget") {
  TEST_CASE("memory is what a step allocates") {
    check_steps<Cnn>();
    check_steps<Normalized>();
    check_steps<Text>();
    check_steps<Recurrent>();
    check_step<Line, float>(ls::RMSprop{.momentum = 0.9, .centered = true}, ls::MeanSquaredError{});
    CHECK(ls::budget<Normalized>(4, ls::SGD{}).constant_parameters == 3 * 9 * 5 + 5 + 2 * 5);
  }

  TEST_CASE("all optimizers are constants") {
    constexpr std::size_t arena = ls::budget<Line>(1, ls::SGD{}).arena;
    static_assert(ls::budget<Line>(1, ls::SGD{.momentum = 0.9}).slots == arena);
    static_assert(ls::budget<Line>(1, ls::RMSprop{.centered = true}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Adagrad{}).slots == arena);
    static_assert(ls::budget<Line>(1, ls::Adadelta{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Adamax{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Nadam{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Ftrl{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Lion{}).slots == arena);
    static_assert(ls::budget<Line>(1, ls::LARS{}).slots == arena);
    static_assert(ls::budget<Line>(1, ls::Lamb{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::Adafactor{}).slots == arena);
    static_assert(ls::budget<Line>(1, ls::Muon{}).slots == 2 * arena);
    static_assert(ls::budget<Line>(1, ls::NoOptimizer{}).slots == 0);
    const ls::Adam scheduled{.learning_rate =
                                 ls::CosineDecay{.initial_learning_rate = 1e-3, .decay_steps = 10}};
    CHECK(ls::budget<Line>(1, scheduled) == ls::budget<Line>(1, ls::Adam{}));
  }

  TEST_CASE("a layer without a count is named") {
    using Own = ls::Sequential<ls::Input<4>, lockstep_test::UserDense<3>, ls::Dense<2>>;
    constexpr Budget budget = ls::budget<Own>(8, ls::SGD{});
    CHECK(budget.uncounted_layer == "user_dense");
    CHECK(budget.flop == 8 * 3 * 2 * 3 * 2);
    CHECK(ls::budget<Cnn>(8, ls::SGD{}).uncounted_layer.empty());
  }

  TEST_CASE("workers with sharded updates have the slots of the largest share at most") {
    // 43 blocks of 65,536, at least 8 for each; where norms are clipped, ranges.
    for (const int ranks : {2, 3, 4})
      for (const bool clips : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(clips);
        const ls::Adam optimizer{.clipnorm = clips ? 1.0 : 0.0};
        const ls::detail::Compiled<Cnn, float, ls::SparseCategoricalCrossentropy, ls::Adam> program(
            {}, optimizer, {});
        std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks));
        lockstep_test::TcpFamily::run(ranks, [&](auto& collective) {
          ls::detail::Variables<float> variables(program, {}, true);
          ls::AnyReplica replica(ls::any_collective(collective), 0, 1);
          const int rank = collective.rank();
          variables.share_updates(ls::detail::update_shares_of(variables, replica), rank);
          if (variables.shares().is_of_blocks() == clips) throw ls::Error("another way to share");
          for (const std::size_t slot : {0u, 1u})
            sizes[static_cast<std::size_t>(rank)] += variables.slot_share(slot).size_bytes();
        });
        const Budget budget = ls::budget<Cnn>(64, optimizer, ranks, true);
        CHECK(budget.slots == *std::max_element(sizes.begin(), sizes.end()));
        CHECK(budget.slots < ls::budget<Cnn>(64, optimizer, ranks).slots);
        CHECK(budget.slots * static_cast<std::size_t>(ranks) >= 2 * budget.arena);
      }
  }

  TEST_CASE("workers with sharded gradients have those of a share, and what is not reduced yet") {
    using Deep = ls::Sequential<ls::Input<600>, ls::Repeat<20, ls::Dense<600>>, ls::Dense<4>>;
    constexpr Budget whole = ls::budget<Deep>(8, ls::SGD{}),
                     two = ls::budget<Deep>(8, ls::SGD{}, 2, true, true),
                     four = ls::budget<Deep>(8, ls::SGD{}, 4, false, true);
    static_assert(two.gradients > whole.gradients / 2 && four.gradients > whole.gradients / 4);
    static_assert(two.gradients < 0.7 * static_cast<double>(whole.gradients));
    static_assert(four.gradients < 0.55 * static_cast<double>(whole.gradients));
    static_assert(ls::budget<Deep>(8, ls::SGD{}, 1, true, true).gradients == whole.gradients);
    static_assert(ls::budget<Line>(8, ls::SGD{}, 2, true, true).gradients <= whole.gradients);
    // Sums of several steps are whole.
    static_assert(
        ls::budget<Deep>(8, ls::SGD{.gradient_accumulation_steps = 2}, 2, true, true).gradients ==
        whole.gradients);
  }

  TEST_CASE("a ring sends what it says") {
    const ls::Arena<float> arena(ls::detail::variables_of<Cnn, Cnn::InputShape>());
    const std::size_t elements = arena.values().size();
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const auto sent = [&](int times) {
        const std::uint64_t before = ls::traffic().sent;
        lockstep_test::TcpRingFamily::run(ranks, [&](auto& collective) {
          std::vector<float> values(elements, 1);
          for (int i = 0; i < times; ++i) collective.all_reduce(std::span(values));
        });
        return ls::traffic().sent - before;
      };
      std::size_t all = 0, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::size_t bytes = ls::Partition(elements, ranks).sent_by(rank) * sizeof(float);
        all += bytes;
        most = std::max(most, bytes);
      }
      CHECK(all == 2 * (static_cast<std::size_t>(ranks) - 1) * elements * sizeof(float));
      CHECK(sent(2) - sent(1) == all);
      CHECK(ls::budget<Cnn>(64, ls::SGD{}, ranks).sent == most);
    }
  }

  TEST_CASE("the largest batch fits, and the next one does not") {
    constexpr std::size_t limit = 100 * ls::MiB;
    constexpr std::size_t most = ls::largest_batch<Cnn>(limit, ls::Adam{});
    static_assert(ls::budget<Cnn>(most, ls::Adam{}).memory <= limit);
    static_assert(ls::budget<Cnn>(most + 1, ls::Adam{}).memory > limit);
    static_assert(most > 100);
    constexpr std::size_t of_four = ls::largest_batch<Cnn>(limit, ls::Adam{}, 4);
    static_assert(of_four == 4 * most);
    static_assert(ls::largest_batch<Cnn>(limit, ls::Adam{}, 4, true) > of_four);
    static_assert(ls::largest_batch<Cnn>(1 * ls::MiB, ls::Adam{}) == 0);
    static_assert(ls::largest_batch<Cnn, void, double>(limit, ls::Adam{}) < most);
  }

  TEST_CASE("fit says at verbose 2 what it has allocated") {
    const auto mflop = [] {
      const std::uint64_t tenths = (ls::budget<Normalized>(16, ls::SGD{}).flop + 50'000) / 100'000;
      return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + " MFLOP";
    };
    const auto said = [&](const auto& optimizer) {
      const lockstep_test::CapturedStderr captured;
      ls::OneDeviceStrategy strategy;
      auto model = ls::compile<Normalized>(strategy, ls::CompileOptions{.seed = 1},
                                           ls::SparseCategoricalCrossentropy{}, optimizer);
      const auto data =
          ls::from_tensor_slices(ls::Tensor<float>(std::vector<float>(16 * 192), {16, 192}),
                                 ls::Tensor<float>(std::vector<float>(16), {16, 1}))
              .batch(16);
      model.fit(data, {.epochs = 2, .verbose = 2});
      const std::string text = captured.text();
      const std::size_t at = text.find("memory: ");
      REQUIRE(at != std::string::npos);
      CHECK(text.find("memory: ", at + 1) == std::string::npos);  // once
      CHECK(text.find("a step: matrix products of " + mflop() + " in each replica\n") !=
            std::string::npos);
      return text.substr(at, text.find('\n', at) - at);
    };
    const auto line = [](const Budget& budget, std::size_t sums) {
      const auto kb = [](std::size_t bytes) { return std::to_string(bytes / 1000) + " kB"; };
      return "memory: parameters " + kb(budget.arena) + ", slots " + kb(budget.slots - sums) +
             "; in each replica: gradients " + kb(budget.gradients + sums) + ", state " +
             kb(budget.state) + ", batch and layers " +
             kb(budget.batch + budget.activations + budget.workspace);
    };
    const ls::Adam adam{};
    CHECK(said(adam) == line(ls::budget<Normalized>(16, adam), 0));
    const ls::SGD sums{.use_ema = true, .gradient_accumulation_steps = 2};
    const Budget budget = ls::budget<Normalized>(16, sums);
    CHECK(said(sums) == line(budget, budget.gradients));
  }

  TEST_CASE("a table of it") {
    std::ostringstream text;
    text << ls::budget<Cnn>(64, ls::Adam{}, 4);
    CHECK(text.str() ==
          "2770634 parameters are trained, 0 are not; 16 samples a step on each of 4 ranks\n"
          "parameters                                  10.6 MiB\n"
          "gradients                                   10.6 MiB\n"
          "slots of the optimizer                      21.1 MiB\n"
          "variables that are not trained               0.0 MiB\n"
          "batch                                        0.0 MiB\n"
          "activations                                  1.3 MiB\n"
          "workspace of the layers                      1.4 MiB\n"
          "memory                                      45.0 MiB\n"
          "products of a step                         278.4 MFLOP\n"
          "sent in a step                              16.1 MiB\n");
    std::ostringstream other;
    other << ls::budget<ls::Sequential<ls::Input<4>, lockstep_test::UserDense<3>>>(8, ls::SGD{});
    CHECK(other.str().find("(not counted: user_dense, which has no member `flop`)") !=
          std::string::npos);
  }
}

TEST_SUITE("budget: peak memory [needs no sanitizer]") {
  TEST_CASE("of fit on one device, with accumulated gradients, and of workers that share slots") {
    if (lockstep_test::has_sanitizer)
      return lockstep_test::skip("budget: peak memory", "no sanitizer, which takes memory");
    const std::string program = lockstep_test::test_program("model_peak");
    check_peak(lockstep_test::run_process({program, "alone"}));
    check_peak(lockstep_test::run_process({program, "accumulated"}));

    for (const char* const shared : {"sharded", "gradients"}) {
      CAPTURE(shared);
      const auto addresses = lockstep_test::free_addresses(2);
      lockstep_test::Process other({program, shared, "1", addresses[0], addresses[1]});
      check_peak(lockstep_test::run_process({program, shared, "0", addresses[0], addresses[1]}));
      check_peak(other.wait(std::chrono::seconds(120)));
    }
  }
}
