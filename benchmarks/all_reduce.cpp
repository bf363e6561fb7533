// All-reduces of float32 sums by lockstep's collectives, on ranks of this machine.
//
//   benchmark_all_reduce --policy NAME --ranks N --bytes B... [--repetitions N]      prints lines "NAME/N B median min max", in us
//
// Policy threads: the threads of one process. All others (policies.hpp): the program starts N copies of itself.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "all_reduce_timing.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/in_process.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/buffer.hpp"
#include "policies.hpp"

namespace {

namespace ls = lockstep;
using benchmarks::TimingOptions;

template <class C>
void time_collective(const TimingOptions& options, C& collective) {
  for (const std::size_t bytes : options.bytes) {
    ls::Buffer buffer;
    if constexpr (requires { ls::Buffer(collective.allocate(bytes)); })
      buffer = collective.allocate(bytes);
    else
      buffer = ls::Buffer(bytes);
    const std::span values(reinterpret_cast<float*>(buffer.data()), bytes / sizeof(float));
    benchmarks::time_all_reduce(
        options, collective.rank(), values, [&] { collective.barrier(); }, [&] { collective.all_reduce(values); });
  }
}

void time_threads(const TimingOptions& options) {
  ls::InProcessGroup group(options.ranks);
  const auto rank = [&](int r) {
    ls::InProcess member = group.member(r);
    time_collective(options, member);
  };
  std::vector<std::jthread> threads;
  for (int r = 1; r < options.ranks; ++r) threads.emplace_back(rank, r);
  rank(0);
}

template <ls::CollectivePolicy Policy>
void time_worker(const TimingOptions& options, const ls::Cluster& cluster,
                 const ls::CommunicationOptions& communication) {
  Policy collective = Policy::connect(
      {.rank = cluster.rank(), .addresses = cluster.addresses(), .ranks_on_host = options.ranks}, communication);
  time_collective(options, collective);
  if constexpr (requires { collective.close(); }) collective.close();
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const auto options = TimingOptions::parse(count, arguments);
    if (options.policy == "threads") return time_threads(options), 0;
    const ls::Cluster cluster = benchmarks::cluster_of(options.policy);
    if (cluster.is_alone())
      return ls::launch_workers({.workers = options.ranks, .arguments = {arguments, arguments + count}});
    benchmarks::with_policy(options.policy, [&]<class Policy>(const ls::CommunicationOptions& communication) {
      time_worker<Policy>(options, cluster, communication);
    });
    return 0;
  });
}
