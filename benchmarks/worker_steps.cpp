// Training steps of the tutorial's CNN on worker processes of one thread each, 64 samples on each
// of them: what a step costs that ends in an all-reduce.
//
// benchmark_worker_steps --policy NAME --ranks N [--repetitions N] prints lines "NAME/N 64 median
// min max", in us
//
// With one rank the process is alone and communicates with no peer. Times are real time. Policies:
// tcp, tcp_bfloat16 (half the bytes on the wire), tcp_checked (messages with checksums), auto; all
// with SGD. tcp_sharded and auto_sharded (each worker updates a share of the parameters), and these
// two with _adam behind them.

#include "all_reduce_timing.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "models.hpp"
#include "worker_step_timing.hpp"

namespace ls = lockstep;

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = benchmarks::TimingOptions::parse(count, arguments);
    const ls::Cluster cluster = ls::cluster_from_environment();
    if (options.ranks > 1 && cluster.is_alone())
      return ls::launch_workers(
          {.workers = options.ranks, .arguments = {arguments, arguments + count}});
    using Tcp = ls::Ring<ls::Tcp>;
    using benchmarks::Cnn;
    using benchmarks::time_steps;
    if (options.policy == "tcp")
      time_steps<Cnn, Tcp>(options, cluster, {});
    else if (options.policy == "tcp_bfloat16")
      time_steps<Cnn, Tcp>(options, cluster,
                           {.communication_options = {.wire = ls::Wire::bfloat16}});
    else if (options.policy == "tcp_checked")
      time_steps<Cnn, Tcp>(options, cluster, {.communication_options = {.checksum = true}});
    else if (options.policy == "tcp_sharded")
      time_steps<Cnn, Tcp>(options, cluster, {.sharded_updates = true});
    else if (options.policy == "tcp_sharded_adam")
      time_steps<Cnn, Tcp, ls::Adam>(options, cluster, {.sharded_updates = true});
    else if (options.policy == "auto")
      time_steps<Cnn, ls::Auto>(options, cluster, {});
    else if (options.policy == "auto_sharded")
      time_steps<Cnn, ls::Auto>(options, cluster, {.sharded_updates = true});
    else if (options.policy == "auto_sharded_adam")
      time_steps<Cnn, ls::Auto, ls::Adam>(options, cluster, {.sharded_updates = true});
    else
      throw ls::ConfigurationError(ls::concat({"unknown policy: '", options.policy, "'"}));
    return 0;
  });
}
