#pragma once

#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/policies/detail/shared_homes.hpp"
#include "lockstep/collectives/policies/neighbour_pipes.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE Auto Auto::connect(Rendezvous rendezvous, const CommunicationOptions& options) {
  options.validate();
  add_properties(rendezvous, options, "Auto");
  Tcp tcp = Tcp::connect(rendezvous, options);
  detail::SharedHomes homes = detail::share_homes(tcp, rendezvous);
  if (!homes.problem.empty()) {
    const detail::NeighbourPipes pipes = detail::open_neighbour_pipes(tcp);
    if (tcp.rank() == 0)
      log_line(concat({"workers communicate over TCP",
                       pipes.pairs > 0 ? ", and neighbours on a host in shared memory" : "", ": ",
                       homes.problem}));
    return Auto(Ring<Tcp>(std::move(tcp), options, pipes.together));
  }
  return Auto(SharedMemory(std::move(tcp), std::move(homes)));
}

LOCKSTEP_INLINE bool Auto::uses_shared_memory() const noexcept {
  return std::holds_alternative<SharedMemory>(collective_);
}

LOCKSTEP_INLINE int Auto::rank() const noexcept {
  return std::visit([](const auto& c) { return c.rank(); }, collective_);
}
LOCKSTEP_INLINE int Auto::size() const noexcept {
  return std::visit([](const auto& c) { return c.size(); }, collective_);
}
LOCKSTEP_INLINE Buffer Auto::allocate(std::size_t bytes) {
  return uses_shared_memory() ? std::get<SharedMemory>(collective_).allocate(bytes) : Buffer(bytes);
}

LOCKSTEP_INLINE void Auto::all_reduce(NumberSpan values, ReduceOp op) {
  std::visit([&](auto& c) { c.all_reduce(values, op); }, collective_);
}
LOCKSTEP_INLINE void Auto::all_reduce(std::span<double> status, NumberSpan values) {
  std::visit([&](auto& c) { c.all_reduce(status, values); }, collective_);
}
LOCKSTEP_INLINE void Auto::broadcast(std::span<std::byte> bytes, int root) {
  std::visit([&](auto& c) { c.broadcast(bytes, root); }, collective_);
}
LOCKSTEP_INLINE void Auto::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::visit([&](auto& c) { c.all_gather(mine, all); }, collective_);
}
LOCKSTEP_INLINE void Auto::barrier() {
  std::visit([](auto& c) { c.barrier(); }, collective_);
}
LOCKSTEP_INLINE void Auto::reduce_scatter_all_gather(std::span<double> status, NumberSpan values,
                                                     UseSums f) {
  std::get<SharedMemory>(collective_).reduce_scatter_all_gather(status, values, f);
}

LOCKSTEP_INLINE bool Auto::keeps_residuals() const noexcept {
  return !uses_shared_memory() && std::get<Ring<Tcp>>(collective_).keeps_residuals();
}
LOCKSTEP_INLINE void Auto::keep_residuals(std::span<const float> values,
                                          std::span<float> residuals) {
  if (keeps_residuals()) std::get<Ring<Tcp>>(collective_).keep_residuals(values, residuals);
}

LOCKSTEP_INLINE void Auto::reduce_scatter_blocks(NumberSpan values) {
  std::visit([&](auto& c) { c.reduce_scatter_blocks(values); }, collective_);
}
LOCKSTEP_INLINE void Auto::all_gather_blocks(NumberSpan values) {
  std::visit([&](auto& c) { c.all_gather_blocks(values); }, collective_);
}

LOCKSTEP_INLINE void Auto::abort(std::string_view reason, ExitCode code) noexcept {
  std::visit([&](auto& c) { c.abort(reason, code); }, collective_);
}
LOCKSTEP_INLINE ActivityBoard& Auto::activity() noexcept {
  return std::visit([](auto& c) -> ActivityBoard& { return c.activity(); }, collective_);
}
LOCKSTEP_INLINE void Auto::close() {
  std::visit([](auto& c) { c.close(); }, collective_);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
