#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/tcp/detail/mesh.hpp"
#include "lockstep/collectives/tcp/detail/transfer.hpp"
#include "lockstep/collectives/tcp/detail/waiting.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct Tcp::Impl {
  detail::TcpMesh mesh;
  std::mutex busy{};  // held while the connections are in use
};

LOCKSTEP_INLINE Tcp::Tcp(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
LOCKSTEP_INLINE Tcp::Tcp(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp& Tcp::operator=(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp::~Tcp() = default;

LOCKSTEP_INLINE Tcp Tcp::connect(const Rendezvous& rendezvous,
                                 const CommunicationOptions& options) {
  std::unique_ptr<Impl> impl(new Impl{{rendezvous, options}});
  impl->mesh.connect(rendezvous);
  return Tcp(std::move(impl));
}

LOCKSTEP_INLINE int Tcp::rank() const noexcept { return impl_->mesh.rank; }
LOCKSTEP_INLINE int Tcp::size() const noexcept { return impl_->mesh.size(); }

LOCKSTEP_INLINE std::string Tcp::name(int rank) const { return impl_->mesh.names.shortly(rank); }

LOCKSTEP_INLINE void Tcp::begin(Operation operation) noexcept {
  impl_->mesh.operation = operation;
  impl_->mesh.operation_begin = detail::TcpMesh::Clock::now();
  impl_->mesh.operation_bytes = 0;
}

LOCKSTEP_INLINE void Tcp::transfer(int to, int from, Flow& flow) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.throw_if_unusable();
  impl_->mesh.check_partners(to, from);
  detail::TcpTransfer(impl_->mesh, to, from, flow).run();
}

LOCKSTEP_INLINE void Tcp::attach(int peer, std::unique_ptr<detail::HostPipe> pipe) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.links_to(peer).pipe = std::move(pipe);
}

LOCKSTEP_INLINE void Tcp::await(int peer, ExternalEvent& event) {
  const std::lock_guard lock(impl_->busy);
  detail::TcpWait wait(impl_->mesh);
  for (;;) {
    // Asked first: a failure after the event belongs to the next operation.
    const bool has_failed = impl_->mesh.cause.is_set();
    if (event.has_come()) return;
    if (has_failed) impl_->mesh.throw_if_failed();
    impl_->mesh.throw_if_unusable();
    // A failure does not wake this thread.
    event.sleep(std::min(wait.next(peer, -1, false), std::chrono::milliseconds(20)));
  }
}

LOCKSTEP_INLINE void Tcp::fail(CollectiveFailure failure) {
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.fail(std::move(failure));
}

LOCKSTEP_INLINE std::string Tcp::calls() {
  const std::lock_guard lock(impl_->busy);
  return impl_->mesh.calls({});
}

LOCKSTEP_INLINE void Tcp::check() {
  if (!impl_->mesh.cause.is_set() && !impl_->mesh.is_closed) return;
  const std::lock_guard lock(impl_->busy);
  impl_->mesh.throw_if_failed();
  impl_->mesh.throw_if_unusable();
}

LOCKSTEP_INLINE void Tcp::abort(std::string_view reason, ExitCode code) noexcept {
  detail::TcpMesh& mesh = impl_->mesh;
  try {
    CollectiveFailure failure = detail::TcpMesh::lost(mesh.rank, std::string(reason));
    failure.code = code;
    mesh.has_failed = true;
    mesh.control.settle(std::move(failure));
  } catch (...) {  // out of memory: the others see the connection closed
  }
}

LOCKSTEP_INLINE ActivityBoard& Tcp::activity() noexcept { return impl_->mesh.activity; }

LOCKSTEP_INLINE void Tcp::close() noexcept {
  if (impl_ == nullptr) return;
  detail::TcpMesh& mesh = impl_->mesh;
  try {
    const std::lock_guard lock(impl_->busy);
    if (!mesh.is_closed && !mesh.cause.is_set()) detail::say_goodbye(mesh);
  } catch (const std::exception& error) {
    log_warning(concat({"at the end of the work: ", error.what()}));
  }
  const std::lock_guard lock(impl_->busy);
  mesh.is_closed = true;
  mesh.control.close();
  mesh.close_sockets();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
