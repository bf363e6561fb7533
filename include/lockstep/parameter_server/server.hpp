// ParameterServer: lets workers in, and serves them until all have gone.
#pragma once

#include <exception>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/collectives/meeting/socket.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/parameter_server/backup.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/detail/fits.hpp"
#include "lockstep/parameter_server/detail/members.hpp"
#include "lockstep/parameter_server/options.hpp"
#include "lockstep/parameter_server/shard_keeper.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Serves all fits of the workers of a cluster: a thread for each connection. A worker whose
/// connection ends is forgotten: no other waits for it. A process that claims its rank takes its
/// place, and goes on where it was.
class ParameterServer {
 public:
  /// `listener` is the socket on which the server listens already.
  ParameterServer(ShardKeeper& keeper, PsPlace place, const ParameterServerOptions& options,
                  const PsTrust& trust, const MeetingSocket& listener);
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  ~ParameterServer();

  /// Returns when all workers have said goodbye; or the chief has, and no other one has been
  /// connected for `timeout`. Throws CollectiveError when no worker has been connected for
  /// `startup_timeout`, Preempted when the process was told to stop, after a last backup, and what
  /// the keeper throws.
  void serve();

 private:
  using Clock = PsMembers::Clock;
  using Lock = PsMembers::Lock;

  struct Conversation {
    std::thread thread{};
    std::string host{};
    PsConnection* connection = nullptr;
    bool has_ended = false;
  };
  void accept();
  void converse(MeetingSocket socket, Conversation& conversation);
  void converse(PsConnection& connection, const std::string& host);
  [[nodiscard]] PsMember& take_place(PsConnection& connection, const PsClaim& claim);
  void answer(PsConnection& connection, PsMember& member);
  /// `why`: the reason if the worker is lost; nothing if it has ended in order.
  void leave(PsMember& member, std::optional<std::string_view> why);
  void name_stranger(std::string_view host, std::string_view why);
  void tend();
  [[nodiscard]] bool is_over();
  [[noreturn]] void leave_early(ExitCode code);
  void stop() noexcept;

  ShardKeeper& keeper_;
  const PsPlace place_;
  const ParameterServerOptions& options_;
  const PsTrust& trust_;
  const MeetingSocket& listener_;
  PsMembers members_;
  PsFits fits_;
  PsBackup backup_;
  std::exception_ptr failure_;
  Clock::time_point last_connected_ = Clock::now();
  Clock::time_point stranger_named_{};  // under the members' mutex, as the next one
  std::string last_stranger_;
  std::list<Conversation> conversations_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/server.ipp"
#endif
