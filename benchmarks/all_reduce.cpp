// All-reduces of float32 sums by lockstep's collectives, on ranks of this machine.
//
// benchmark_all_reduce --policy NAME --ranks N --bytes B... [--repetitions N] prints lines "NAME/N
// B median min max", in us
//
// Policies: threads (of one process); tcp, tcp_checked (messages with checksums), tcp_tls
// (encrypted), shared_memory and auto, for which the program starts N copies of itself; mpi, where
// mpirun has started them. Where several ranks have a host (two with the same one in TF_CONFIG's
// addresses): tcp_neighbours, as tcp, but neighbours on a host send through memory; two_levels, a
// process for each address of TF_CONFIG, or two, and N ranks in all, which are its threads.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "all_reduce_timing.hpp"
#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/mpi.hpp"

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
        options, collective.rank(), values, [&] { collective.barrier(); },
        [&] { collective.all_reduce(values); });
  }
}

/// `member(r)` is the collective of thread r.
template <class Member>
void time_threads(const TimingOptions& options, int count, const Member& member) {
  const auto rank = [&](int r) {
    auto collective = member(r);
    time_collective(options, collective);
  };
  std::vector<std::jthread> threads;
  for (int r = 1; r < count; ++r) threads.emplace_back(rank, r);
  rank(0);
}

void time_threads(const TimingOptions& options) {
  ls::InProcessGroup group(options.ranks);
  time_threads(options, options.ranks, [&](int r) { return group.member(r); });
}

template <ls::CollectivePolicy Policy>
int time_worker(const TimingOptions& options, const ls::Cluster& cluster,
                const ls::CommunicationOptions& communication = {}) {
  if (cluster.world_size() != options.ranks)
    throw ls::ConfigurationError(
        ls::concat({"--ranks is ", options.ranks, ", but there are ", cluster.world_size()}));
  const auto any = ls::any_collective(Policy::connect(
      {.rank = cluster.rank(),
       .addresses = cluster.addresses(),
       .ranks_on_host = options.ranks,
       .secret = communication.tls == ls::Tls::off ? "" : "a secret that protects nothing"},
      communication));
  time_collective(options, *any);
  any->close();
  return 0;
}

/// Ring<Tcp> as Auto connects it between hosts; a host is the name in the address. (By the kernel's
/// name, network namespaces of one machine would be one host.)
struct NeighbourRing {
  static ls::Ring<ls::Tcp> connect(ls::Rendezvous rendezvous,
                                   const ls::CommunicationOptions& options) {
    const std::string host(
        ls::parse_address(rendezvous.addresses[static_cast<std::size_t>(rendezvous.rank)]).host);
    ls::Tcp tcp = ls::Tcp::connect(std::move(rendezvous), options);
    const int together = ls::detail::open_neighbour_pipes(tcp, host).together;
    return ls::Ring<ls::Tcp>(std::move(tcp), options, together);
  }
};

int time_two_levels(const TimingOptions& options, std::vector<std::string> arguments) {
  const ls::Cluster cluster = ls::cluster_from_environment();
  if (cluster.is_alone())
    return ls::launch_workers({.workers = 2, .arguments = std::move(arguments)});
  const int threads = options.ranks / cluster.world_size();
  if (threads * cluster.world_size() != options.ranks)
    throw ls::ConfigurationError(ls::concat(
        {"--ranks is ", options.ranks, ", no multiple of ", cluster.world_size(), " processes"}));
  const auto ring = ls::any_collective(ls::Ring<ls::Tcp>::connect(
      {.rank = cluster.rank(), .addresses = cluster.addresses(), .ranks_on_host = options.ranks},
      {}));
  ls::HierarchicalGroup group(threads, ring.get(), {}, options.ranks);
  time_threads(options, threads, [&](int r) { return group.member(r); });
  ring->close();
  return 0;
}

/// The program is one of the workers, or starts them.
template <ls::CollectivePolicy Policy>
int time_workers(const TimingOptions& options, std::vector<std::string> arguments,
                 const ls::CommunicationOptions& communication = {}) {
  const ls::Cluster cluster = ls::cluster_from_environment();
  if (!cluster.is_alone()) return time_worker<Policy>(options, cluster, communication);
  return ls::launch_workers({.workers = options.ranks, .arguments = std::move(arguments)});
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    const std::vector<std::string> own(arguments, arguments + count);
    const auto options = TimingOptions::parse(count, arguments);
    if (options.policy == "threads") return time_threads(options), 0;
    if (options.policy == "tcp") return time_workers<ls::Ring<ls::Tcp>>(options, own);
    if (options.policy == "tcp_checked")
      return time_workers<ls::Ring<ls::Tcp>>(options, own, {.checksum = true});
    if (options.policy == "tcp_tls")
      return time_workers<ls::Ring<ls::Tcp>>(options, own, {.tls = ls::Tls::pre_shared_key});
    if (options.policy == "tcp_neighbours") return time_workers<NeighbourRing>(options, own);
    if (options.policy == "two_levels") return time_two_levels(options, own);
    if (options.policy == "shared_memory") return time_workers<ls::SharedMemory>(options, own);
    if (options.policy == "auto") return time_workers<ls::Auto>(options, own);
#if defined(LOCKSTEP_HAS_MPI)
    if (options.policy == "mpi") return time_worker<ls::Mpi>(options, ls::mpi_cluster());
#endif
    throw ls::ConfigurationError(ls::concat({"unknown policy: '", options.policy, "'"}));
  });
}
