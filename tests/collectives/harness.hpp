// Runs a piece of code on every rank of a collective, each rank on a thread of its own.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/net/listener.hpp"
#include "support/free_addresses.hpp"

namespace lockstep_test {

using lockstep::AnyCollective;
using lockstep::Auto;
using lockstep::block_elements;
using lockstep::CollectiveError;
using lockstep::CollectiveFailure;
using lockstep::CollectivePolicy;
using lockstep::CommunicationImplementation;
using lockstep::CommunicationOptions;
using lockstep::Hierarchical;
using lockstep::HierarchicalGroup;
using lockstep::InProcess;
using lockstep::InProcessGroup;
using lockstep::RandomKey;
using lockstep::RandomStream;
using lockstep::Rendezvous;
using lockstep::Ring;
using lockstep::SharedMemory;
using lockstep::Tcp;

/// Normal, different on each rank.
template <class T>
std::vector<T> random_numbers(int rank, std::size_t count) {
  std::vector<T> values(count);
  RandomStream random(RandomKey(42).fold_in(static_cast<std::uint64_t>(rank)));
  for (T& value : values) value = static_cast<T>(random.normal());
  return values;
}

/// Listens on a free port of the loopback interface, so that no other program can take it before
/// the test does.
class Listener {
 public:
  Listener() : descriptor_(lockstep::detail::listen_at("127.0.0.1", 0, 128)) {
    if (!descriptor_.is_open())
      throw std::runtime_error("cannot listen on a port of the loopback interface");
    ::fcntl(descriptor_.get(), F_SETFL, 0);  // it blocks
    port_ = static_cast<std::uint16_t>(
        lockstep::detail::port_of(lockstep::detail::own_name(descriptor_.get())));
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  int release() { return descriptor_.release(); }

 private:
  lockstep::detail::Descriptor descriptor_;
  std::uint16_t port_ = 0;
};

/// Calls f(rank) on a thread for each rank, and returns what each has thrown.
template <class F>
std::vector<std::exception_ptr> run_threads(int ranks, F f) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

inline void rethrow_first(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& exception : thrown)
    if (exception) std::rethrow_exception(exception);
}

inline std::string message_of(const std::exception_ptr& exception) {
  if (!exception) return {};
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  }
}

inline lockstep::ExitCode code_of(const std::exception_ptr& exception) {
  REQUIRE(exception);
  try {
    std::rethrow_exception(exception);
  } catch (const lockstep::Error& error) {
    return error.exit_code();
  }
}

/// What a rank has thrown, which must be a CollectiveError.
inline CollectiveFailure failure_of(const std::exception_ptr& exception) {
  REQUIRE(exception);
  try {
    std::rethrow_exception(exception);
  } catch (const CollectiveError& error) {
    return error.failure();
  } catch (const std::exception& error) {
    FAIL("no CollectiveError: ", error.what());
  }
  return {};
}

/// The places of a cluster on free ports of this machine.
struct LocalCluster {
  explicit LocalCluster(int size) : listeners(static_cast<std::size_t>(size)) {
    for (const Listener& listener : listeners) addresses.push_back(listener.address());
  }
  [[nodiscard]] Rendezvous place(int rank) {
    Rendezvous rendezvous;
    rendezvous.rank = rank;
    rendezvous.addresses = addresses;
    rendezvous.listen_socket = listeners[static_cast<std::size_t>(rank)].release();
    return rendezvous;
  }
  [[nodiscard]] std::vector<Rendezvous> places() {
    std::vector<Rendezvous> all;
    for (std::size_t rank = 0; rank < addresses.size(); ++rank)
      all.push_back(place(static_cast<int>(rank)));
    return all;
  }
  std::vector<Listener> listeners;
  std::vector<std::string> addresses;
};

/// Calls f(place) on a thread for each rank of a cluster, and returns what each has thrown.
template <class F>
std::vector<std::exception_ptr> run_places(int size, F f) {
  const std::vector<Rendezvous> places = LocalCluster(size).places();
  return run_threads(size, [&](int rank) { f(places[static_cast<std::size_t>(rank)]); });
}

inline CommunicationOptions patient_options() {  // a sanitizer on a busy machine is slow
  return {.timeout = std::chrono::seconds(60), .startup_timeout = std::chrono::seconds(60)};
}

// Families: run(size, f) calls f(collective) on each rank.

struct InProcessFamily {
  static constexpr const char* name = "in-process";
  static constexpr int largest = 8;
  template <class F>
  static void run(int size, F f) {
    InProcessGroup group(size, patient_options());
    rethrow_first(run_threads(size, [&](int rank) {
      InProcess collective = group.member(rank);
      f(collective);
    }));
  }
};

/// What a policy's connect has given.
template <class C>
C& collective_in(C& connected) {
  return connected;
}
inline AnyCollective& collective_in(std::shared_ptr<AnyCollective>& connected) {
  return *connected;
}

/// A policy over TCP connections.
template <CollectivePolicy Policy,
          CommunicationImplementation implementation = CommunicationImplementation::automatic>
struct PolicyFamily {
  static constexpr const char* name = "policy";
  static constexpr int largest = 4;
  template <class F>
  static void run(int size, F f) {
    rethrow_first(run_places(size, [&](const Rendezvous& place) {
      CommunicationOptions options = patient_options();
      options.implementation = implementation;
      options.checksum = true;
      auto connected = Policy::connect(place, options);
      auto& collective = collective_in(connected);
      f(collective);
      collective.close();
    }));
  }
};
using TcpFamily = PolicyFamily<Ring<Tcp>>;
using TcpRingFamily = PolicyFamily<Ring<Tcp>, CommunicationImplementation::ring>;
using TcpGatherFamily = PolicyFamily<Ring<Tcp>, CommunicationImplementation::gather>;
using SharedMemoryFamily = PolicyFamily<SharedMemory>;
using AutoFamily = PolicyFamily<Auto>;

/// Processes are threads here, too; each has two replicas where the size is even.
template <class OuterFamily>
struct HierarchicalFamily {
  static constexpr const char* name = "hierarchical";
  static constexpr int largest = 2 * OuterFamily::largest > 8 ? 8 : 2 * OuterFamily::largest;
  template <class F>
  static void run(int size, F f) {
    const int local = size % 2 == 0 ? 2 : 1;
    OuterFamily::run(size / local, [&](auto& outer) {
      const auto any = any_collective(outer);
      HierarchicalGroup group(local, any.get(), patient_options());
      rethrow_first(run_threads(local, [&](int rank) {
        Hierarchical collective = group.member(rank);
        f(collective);
      }));
    });
  }
};

/// The numerics contract, spelled out: element i of block b is ((x[s] + x[s + 1]) + ...) with s = b
/// mod ranks.
template <class T>
std::vector<T> contract_sum(const std::vector<std::vector<T>>& inputs) {
  const std::size_t ranks = inputs.size();
  std::vector<T> sums(inputs[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t first = i / block_elements % ranks;
    T sum = inputs[first][i];
    for (std::size_t k = 1; k < ranks; ++k) sum = sum + inputs[(first + k) % ranks][i];
    sums[i] = sum;
  }
  return sums;
}

}  // namespace lockstep_test
