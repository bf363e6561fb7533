// The collective between workers that fits where they are.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/share_pipes.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A CollectivePolicy: SharedMemory when all ranks are on one machine and can share memory, else Ring<Tcp>, in which the bytes
/// between ranks that are neighbours on one host go through memory that they share, if they can. Both give the same bits, unless
/// `options.wire` rounds what Ring<Tcp> moves.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
class Auto {
 public:
  [[nodiscard]] static Auto connect(Rendezvous rendezvous, const CommunicationOptions& options) {
    options.validate();
    add_properties(rendezvous, options, "Auto");
    Tcp tcp = Tcp::connect(rendezvous, options);
    SharedMemory::Homes homes = SharedMemory::share_homes(tcp, rendezvous);
    if (!homes.problem.empty()) {
      const int pairs = detail::share_pipes(tcp);
      if (tcp.rank() == 0)
        log_line(concat({"workers communicate over TCP", pairs > 0 ? ", and neighbours on a host in shared memory" : "",
                         ": ", homes.problem}));
      return Auto(Ring<Tcp>(std::move(tcp), options));
    }
    return Auto(SharedMemory(std::move(tcp), std::move(homes)));
  }

  [[nodiscard]] bool uses_shared_memory() const noexcept { return std::holds_alternative<SharedMemory>(collective_); }

  [[nodiscard]] int rank() const noexcept {
    return std::visit([](const auto& c) { return c.rank(); }, collective_);
  }
  [[nodiscard]] int size() const noexcept {
    return std::visit([](const auto& c) { return c.size(); }, collective_);
  }
  [[nodiscard]] Buffer allocate(std::size_t bytes) {
    return uses_shared_memory() ? std::get<SharedMemory>(collective_).allocate(bytes) : Buffer(bytes);
  }

  template <Reducible T>
  void all_reduce(std::span<T> values, ReduceOp op = ReduceOp::sum) {
    std::visit([&](auto& c) { c.all_reduce(values, op); }, collective_);
  }
  template <Reducible T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    std::visit([&](auto& c) { c.all_reduce(status, values); }, collective_);
  }

  [[nodiscard]] bool shares_memory() const noexcept { return uses_shared_memory(); }
  template <Reducible T, class F>
  void reduce_scatter_all_gather(std::span<double> status, std::span<T> values, F f) {
    std::get<SharedMemory>(collective_).reduce_scatter_all_gather(status, values, std::move(f));
  }

  void broadcast(std::span<std::byte> bytes, int root) {
    std::visit([&](auto& c) { c.broadcast(bytes, root); }, collective_);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    std::visit([&](auto& c) { c.all_gather(mine, all); }, collective_);
  }
  void barrier() {
    std::visit([](auto& c) { c.barrier(); }, collective_);
  }
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    std::visit([&](auto& c) { c.abort(reason, code); }, collective_);
  }
  /// See Collective.
  [[nodiscard]] ActivityBoard& activity() noexcept {
    return std::visit([](auto& c) -> ActivityBoard& { return c.activity(); }, collective_);
  }
  void close() {
    std::visit([](auto& c) { c.close(); }, collective_);
  }

 private:
  template <class C>
  explicit Auto(C collective) : collective_(std::move(collective)) {}

  std::variant<SharedMemory, Ring<Tcp>> collective_;
};

static_assert(CollectivePolicy<Auto>);

}  // namespace lockstep::inline LOCKSTEP_ABI
