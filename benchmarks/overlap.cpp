// Training steps of an MLP whose gradients become ready layer by layer, on worker processes of one
// thread each, over TCP: what it is worth to reduce gradients while backward computes others.
// benchmarks/overlap.sh runs it on wires of several speeds.
//
// benchmark_overlap --policy off|on|automatic --ranks N [--repetitions N] prints lines "POLICY/N
// 128 median min max", in us

#include "all_reduce_timing.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/network/sequential.hpp"
#include "worker_step_timing.hpp"

namespace ls = lockstep;

namespace {

/// 15 MiB of parameters in layers of 3 to 4 MiB.
struct WideMlp {
  static constexpr std::size_t batch = 128;
  template <std::size_t Units>
  using Hidden = ls::Dense<Units, ls::ReLU>;
  using Net = ls::Sequential<ls::Input<784>, Hidden<1024>, Hidden<1024>, Hidden<1024>, Hidden<1024>,
                             ls::Dense<10>>;
};

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = benchmarks::TimingOptions::parse(count, arguments);
    const ls::Cluster cluster = ls::cluster_from_environment();
    if (options.ranks > 1 && cluster.is_alone())
      return ls::launch_workers(
          {.workers = options.ranks, .arguments = {arguments, arguments + count}});
    for (const ls::Overlap overlap : {ls::Overlap::off, ls::Overlap::on})
      if (options.policy == ls::to_string(overlap)) {
        benchmarks::time_steps<WideMlp, ls::Ring<ls::Tcp>>(
            options, cluster, {.communication_options = {.overlap = overlap}});
        return 0;
      }
    throw ls::ConfigurationError(ls::concat({"unknown policy: '", options.policy, "'"}));
  });
}
