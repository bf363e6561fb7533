// Reinforcement learning in a custom loop: REINFORCE with a baseline balances a pole on a cart.
// `reinforce --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

/// Gym's CartPole-v1: Barto, Sutton, Anderson, "Neuronlike adaptive elements that can solve
/// difficult learning control problems", 1983. Each step earns a reward of 1.
struct CartPole {
  explicit CartPole(ls::RandomKey key) : random(key) {
    for (double& value : state) value = random.uniform(-0.05, 0.05);
  }
  bool is_over() const {
    return steps == 500 || std::abs(state[0]) > 2.4 || std::abs(state[2]) > 0.2095;
  }
  void push(bool right) {
    auto& [position, speed, angle, turning] = state;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double force = ((right ? 10 : -10) + 0.05 * turning * turning * sine) / 1.1;
    const double turn =
        (9.8 * sine - cosine * force) / (0.5 * (4.0 / 3 - 0.1 * cosine * cosine / 1.1));
    position += 0.02 * speed;
    speed += 0.02 * (force - 0.05 * turn * cosine / 1.1);
    angle += 0.02 * turning;
    turning += 0.02 * turn;
    ++steps;
  }

  ls::RandomStream random;
  std::array<double, 4> state{};  ///< of the cart position and speed, of the pole angle and turning
  int steps = 0;
};
constexpr double solved = 475;  // the mean return at which Gym calls it so

// The logit of a push to the right, and the baseline: the reward that is still to be expected.
using Net = ls::Sequential<ls::Input<4>, ls::Dense<64, ls::Tanh>, ls::Dense<2>>;

struct Step {
  std::array<double, 4> state;
  bool right;
  double to_go = 0;  ///< the sum of all later rewards, each 0.99 of the one before, in hundreds
};
using Episode = std::vector<Step>;

/// Plays an episode with each cart, all side by side: a forward is of one batch.
template <class Here>
std::vector<Episode> play(Here& here, std::vector<CartPole> carts) {
  std::vector<Episode> episodes(carts.size());
  for (bool all_over = false; !all_over;) {
    const auto x = here.room(carts.size()).x;
    for (std::size_t i = 0; i < carts.size(); ++i)
      for (std::size_t f = 0; f < 4; ++f) x(i, f) = static_cast<float>(carts[i].state[f]);
    x.clear_padding();
    const auto outputs = here.forward({.x = x});
    all_over = true;
    for (std::size_t i = 0; i < carts.size(); ++i) {
      if (carts[i].is_over()) continue;
      const double right = 1 / (1 + std::exp(-static_cast<double>(outputs(i, 0))));
      episodes[i].push_back({carts[i].state, carts[i].random.uniform() < right});
      carts[i].push(episodes[i].back().right);
      all_over = all_over && carts[i].is_over();
    }
  }
  for (Episode& episode : episodes)
    for (std::size_t t = episode.size(); t-- > 0;)
      episode[t].to_go = 0.01 + (t + 1 < episode.size() ? 0.99 * episode[t + 1].to_go : 0);
  return episodes;
}

/// One update: what went better than expected becomes more probable. Williams, "Simple statistical
/// gradient-following algorithms for connectionist reinforcement learning", 1992.
template <class Here>
void learn(Here& here, const std::vector<Episode>& episodes) {
  std::vector<Step> steps;
  for (const Episode& episode : episodes) steps.insert(steps.end(), episode.begin(), episode.end());
  const auto x = here.room(steps.size()).x;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (std::size_t f = 0; f < 4; ++f) x(i, f) = static_cast<float>(steps[i].state[f]);
  x.clear_padding();
  here.minimize({.x = x}, [&](ls::TensorView<const float> outputs, ls::TensorView<const float>,
                              std::span<double> losses, ls::TensorView<float> gradient) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double logit = outputs(i, 0), chosen = steps[i].right ? logit : -logit;
      const double better = steps[i].to_go - static_cast<double>(outputs(i, 1));
      const double surprise = 1 / (1 + std::exp(chosen));  // 1 - the probability of the push
      losses[i] = better * std::log1p(std::exp(-chosen)) + better * better / 2;
      gradient(i, 0) = static_cast<float>(better * (steps[i].right ? -surprise : surprise));
      gradient(i, 1) = static_cast<float>(-better);
    }
    gradient.clear_padding();
  });
}

void train(const examples::RunOptions& options, int updates) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const std::int64_t batch = options.batch_size * strategy.num_workers();  // episodes
  auto model = ls::compile<Net>(strategy, {.seed = options.seed}, ls::Adam{.learning_rate = 0.01});
  const auto results = strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    const std::int64_t rank = replica.collective().rank(), ranks = replica.collective().size();
    double average = 0;  // of the returns of late; equal on all ranks
    int update = 0;
    for (; update < updates && average < solved; ++update) {
      std::vector<CartPole> carts;  // this rank's part of the batch
      for (std::int64_t i = rank; i < batch; i += ranks)
        carts.emplace_back(
            ls::RandomKey(options.seed).fold_in(static_cast<std::uint64_t>(update * batch + i)));
      const std::vector<Episode> episodes = play(here, carts);
      learn(here, episodes);
      std::array<double, 1> total{};
      for (const Episode& episode : episodes) total[0] += static_cast<double>(episode.size());
      replica.collective().all_reduce(std::span<double>(total), ls::ReduceOp::sum);
      average += 0.1 * (total[0] / static_cast<double>(batch) - average);
      if (update % 10 == 9 && options.verbose > 0 && rank == 0)
        std::printf("Update %d/%d - mean return: %.1f\n", update + 1, updates, average);
    }
    return std::pair(average, update);
  });
  if (strategy.is_chief())
    std::printf("final: mean_return=%.1f updates=%d parameters_crc32c=%08x\n", results[0].first,
                results[0].second, static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int updates = 300;
  examples::CommandLine line("reinforce");
  options.add_to(line);
  line.number("--updates", 1, 1'000'000, updates);
  const std::string usage =
      std::string("usage: reinforce [options]\n  --updates N          at most (default 300)\n") +
      options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, updates); });
}
