#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/tcp/detail/state.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE Tcp::Tcp(std::unique_ptr<detail::TcpState> state) noexcept : state_(std::move(state)) {}
LOCKSTEP_INLINE Tcp::Tcp(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp& Tcp::operator=(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp::~Tcp() = default;

LOCKSTEP_INLINE Tcp Tcp::connect(const Rendezvous& rendezvous, const CommunicationOptions& options) {
  auto state = std::make_unique<detail::TcpState>(rendezvous, options);
  state->start(rendezvous);
  return Tcp(std::move(state));
}

LOCKSTEP_INLINE int Tcp::rank() const noexcept { return state_->rank; }
LOCKSTEP_INLINE int Tcp::size() const noexcept { return state_->size(); }

LOCKSTEP_INLINE void Tcp::begin(Operation operation) noexcept {
  state_->operation = operation;
  state_->operation_begin = detail::TcpState::Clock::now();
  state_->operation_bytes = 0;
}

LOCKSTEP_INLINE void Tcp::transfer(int to, int from, Flow& flow) {
  detail::TcpState& s = *state_;
  const std::lock_guard lock(s.busy);
  s.throw_if_unusable();
  detail::TcpState::Transfer transfer = s.transfer(to, from, flow);
  const bool receives = !transfer.receiving.is_complete();
  s.run(transfer);
  if (receives) ++s.counts(from).received;
}

LOCKSTEP_INLINE void Tcp::attach(int peer, std::unique_ptr<detail::HostPipe> pipe) {
  const std::lock_guard lock(state_->busy);
  state_->links_to(peer).pipe = std::move(pipe);
}

LOCKSTEP_INLINE void Tcp::await(int peer, ExternalEvent& event) {
  detail::TcpState& s = *state_;
  const std::lock_guard lock(s.busy);
  if (event.has_come()) return;
  s.throw_if_failed();
  s.throw_if_unusable();
  s.await(peer, event);
}

LOCKSTEP_INLINE void Tcp::fail(CollectiveFailure failure) {
  const std::lock_guard lock(state_->busy);
  state_->fail(std::move(failure));
}

LOCKSTEP_INLINE std::string Tcp::calls() {
  const std::lock_guard lock(state_->busy);
  return state_->calls({});
}

LOCKSTEP_INLINE void Tcp::check() {
  if (!state_->cause.is_set() && !state_->is_closed) return;
  const std::lock_guard lock(state_->busy);
  state_->throw_if_failed();
  state_->throw_if_unusable();
}

LOCKSTEP_INLINE void Tcp::abort(std::string_view reason, ExitCode code) noexcept {
  detail::TcpState& s = *state_;
  try {
    CollectiveFailure failure = detail::TcpState::lost(s.rank, std::string(reason));
    failure.code = code;
    s.has_failed = true;
    s.control.settle(std::move(failure));
  } catch (...) {  // out of memory: the others see the connection closed
  }
}

LOCKSTEP_INLINE ActivityBoard& Tcp::activity() noexcept { return state_->activity; }

LOCKSTEP_INLINE void Tcp::close() noexcept {
  if (state_ == nullptr) return;
  detail::TcpState& s = *state_;
  try {
    const std::lock_guard lock(s.busy);
    if (!s.is_closed && !s.cause.is_set()) s.say_goodbye();
  } catch (const std::exception& error) {
    log_line(concat({"warning: at the end of the work: ", error.what()}));
  }
  const std::lock_guard lock(s.busy);
  s.is_closed = true;
  s.control.close();
  s.close_sockets();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
