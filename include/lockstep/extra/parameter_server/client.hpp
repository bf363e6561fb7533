// ParameterClient: a worker's connections to all parameter servers.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/extra/parameter_server/backup.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

[[nodiscard]] inline std::uint64_t draw_process_number() {
  const std::string nonce = make_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return number;
}

/// The worker that calls.
struct PsCaller {
  int rank = 0;
  int workers = 1;
  std::size_t servers = 1;
  const ParameterServerOptions& options;
  PsTrust trust{};
  std::uint64_t process = 0;  ///< random: tells this process from an earlier one of the rank
};

/// The connection, and what to do until there is one again. All but `in_use` and converse() is for
/// the thread that has locked it.
class PsLink {
 public:
  using Clock = std::chrono::steady_clock;
  using Send = FunctionRef<void(PsConnection&)>;
  using Receive = FunctionRef<void(PsConnection&, const PsConnection::Head&)>;

  PsLink(const PsCaller& caller, std::size_t index, std::string address)
      : caller_(caller), index_(index), address_(std::move(address)) {}

  [[nodiscard]] std::size_t index() const noexcept { return index_; }

  /// Sends, and receives the reply; begins anew when the connection is lost meanwhile. Waits for a
  /// silent server for at most startup_timeout, and until `until` while the server says that it
  /// waits for others. Throws CollectiveError then, ConfigurationError when the server refuses.
  void converse(std::string_view operation, Send send, Receive receive,
                std::optional<Clock::time_point> until = std::nullopt) {
    const std::lock_guard use(in_use);
    const auto begin = Clock::now();
    const auto deadline = begin + caller_.options.startup_timeout;
    RareLog reports;
    bool is_trusted = true;
    const auto succeeds = [&] {
      try {
        if (!connection) connect(deadline);
        send(*connection);
        receive(*connection, reply(operation, until));
        return true;
      } catch (const ConnectionLost& lost) {
        connection.reset();
        why = lost.what();
        const bool was_trusted = is_trusted;
        is_trusted = dynamic_cast<const PeerUntrusted*>(&lost) == nullptr;
        if (was_trusted && !is_trusted) reports.hasten();  // no use in waiting to say so
        return false;
      } catch (...) {
        connection.reset();
        throw;
      }
    };
    constexpr auto interval = std::chrono::milliseconds(100);
    for (; !succeeds(); ::poll(nullptr, 0, static_cast<int>(interval.count()))) {
      const auto now = Clock::now();
      if (now + 2 * interval >= deadline)  // without time for an answer, it would not tell why
        fail(operation, begin,
             is_trusted ? has_not_come_back(why, caller_.options.startup_timeout) : why,
             is_trusted ? address_ : std::string());  // one that TLS refuses is at work for others
      if (reports.is_due(now))
        log_line(concat({operation, ": ", waits_for_it(caller_.rank, name(), why)}));
    }
  }
  /// Throws ConnectionLost.
  void connect(Clock::time_point until) {
    const Address place = parse_address(address_);
    std::string reason = "the name has no address";
    Descriptor socket = call_host(place.host, place.port, std::chrono::seconds(2), until, reason);
    if (!socket.is_open()) throw ConnectionLost(reason);
    connection.emplace(std::move(socket), caller_.options.timeout);
    const auto says = [this](std::chrono::milliseconds limit) {
      return [this, limit](std::chrono::seconds silent) {
        log_line(waits_for_silent(
            caller_.rank, name(), silent, limit,
            limit == caller_.options.timeout ? " (ParameterServerOptions::timeout)" : ""));
      };
    };
    connection->on_silence(
        says(std::min(caller_.options.timeout, PsConnection::limit_of_strangers)));
    connection->limit_stranger(until);
    try {
      claim_place(*connection, caller_.trust,
                  {.rank = caller_.rank,
                   .workers = caller_.workers,
                   .server = static_cast<int>(index_),
                   .servers = static_cast<int>(caller_.servers),
                   .max_staleness = caller_.options.max_staleness.value_or(-1),
                   .process = caller_.process});
    } catch (const ConfigurationError& error) {
      throw ConfigurationError(concat({"worker ", caller_.rank, ": ", name(), ": ", error.what()}));
    }
    connection->trust();
    connection->on_silence(says(caller_.options.timeout));
    PsConnection::expect(reply("start-up", until), 0);
  }
  /// The head of the reply; until it comes, the server keeps this worker waiting for others.
  [[nodiscard]] PsConnection::Head reply(std::string_view operation,
                                         std::optional<Clock::time_point> until) {
    const auto begin = Clock::now();
    RareLog reports;
    for (;;) {
      const auto head = connection->receive_head();
      if (head.kind == PsMessage::reply) return head;
      if (head.kind != PsMessage::waiting && head.kind != PsMessage::refusal)
        throw ConnectionLost(breaks_protocol("it answers what was not asked"));
      const std::string text = printable(connection->receive_text(head, 1 << 16), 2000);
      if (head.kind == PsMessage::refusal) {
        const ExitCode code = failure_code(static_cast<int>(head.number));
        if (code == ExitCode::lost_peer) fail(operation, begin, text);
        throw ConfigurationError(
            concat({operation, ": ", name(), " refuses worker ", caller_.rank, ": ", text}));
      }
      const auto now = Clock::now();
      if (until && now >= *until) fail(operation, begin, waits_in_vain(text));
      if (!reports.is_due(now)) continue;
      const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin);
      log_line(
          concat({operation, ": ",
                  waits_since(concat({"worker ", caller_.rank, " at ", name()}), since, text)}));
    }
  }
  /// Throws CollectiveError: the run cannot go on. `address`: of the server that does not answer,
  /// if one does not; the launcher is told of it.
  [[noreturn]] void fail(std::string_view operation, Clock::time_point since,
                         std::string_view reason, const std::string& address = "") const {
    throw CollectiveError(
        {.address = address,
         .operation = std::string(operation),
         .seconds = std::chrono::duration<double>(Clock::now() - since).count(),
         .reason = concat({"worker ", caller_.rank, ": ", name(), ": ", reason})});
  }

  std::mutex in_use;
  std::optional<PsConnection> connection;
  std::string why;  ///< why there is no connection

 private:
  [[nodiscard]] std::string name() const {
    return concat({"parameter server ", index_, " (", address_, ")"});
  }

  const PsCaller& caller_;
  const std::size_t index_;
  const std::string address_;
};

/// What the servers say to a worker that begins a fit.
struct PsBegun {
  bool gives_state = false;        ///< the chief: put() all shards, and the fit begins
  bool is_over = false;            ///< others have finished this fit, and begun a later one
  std::vector<std::byte> place{};  ///< where this rank goes on; empty: at the beginning
};

/// What goes to one server in a step, and what comes back.
struct PsExchange {
  std::span<const std::byte> gradients;
  std::span<std::byte> parameters;
  std::span<double> status;  ///< the reply to the status that all servers are sent
};

/// Every call waits for a server that is away, goes on when it is back, and says on stderr every 5
/// s for which server it waits. It throws CollectiveError (exit code 138), which names the server,
/// when one has not been heard of for startup_timeout, and ConfigurationError when a server refuses
/// this worker. One thread makes the calls; a thread of the client tells the servers
/// meanwhile that this worker lives.
class ParameterClient {
 public:
  ParameterClient(int rank, int workers, const std::vector<std::string>& servers,
                  const ParameterServerOptions& options, PsTrust trust)
      : options_(options),
        caller_{.rank = rank,
                .workers = workers,
                .servers = servers.size(),
                .options = options,
                .trust = std::move(trust),
                .process = draw_process_number()} {
    for (const std::string& address : servers)
      links_.push_back(std::make_unique<PsLink>(caller_, links_.size(), address));
    speaker_ = start_thread("word to parameter servers", [this] { speak(); });
  }
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;
  ~ParameterClient() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
    speaker_.join();
  }

  [[nodiscard]] std::size_t servers() const noexcept { return links_.size(); }

  /// Waits until the chief has begun the fit. `signature`: the program's, and behind a null
  /// character what its fit was given. Throws ConfigurationError when some servers have backups of
  /// a training, and others have not.
  [[nodiscard]] PsBegun begin(std::uint64_t fit, std::string_view signature) {
    PsBegun begun;
    fit_ = fit;
    const auto until = Clock::now() + std::max(options_.startup_timeout, options_.progress_limit());
    std::vector<PsVerdict> verdicts;
    for (const auto& link : links_) {
      const bool is_anew = !verdicts.empty() && verdicts.front() == PsVerdict::give_anew;
      std::uint64_t answer = 0;
      std::vector<std::byte> place;
      link->converse(
          "begin of fit",
          [&](PsConnection& connection) {
            connection.send(PsMessage::begin,
                            {pack_numbers(fit), std::as_bytes(std::span(signature))},
                            is_anew ? 1 : 0);
          },
          [&](PsConnection& connection, const PsConnection::Head& head) {
            if (head.size < 8 || head.size > (1 << 16) + 8) PsConnection::expect(head, 8);
            std::array<std::byte, 8> first{};
            connection.receive(first);
            unpack_numbers(first, answer);
            place.resize(head.size - 8);
            connection.receive(place);
          },
          until);
      verdicts.push_back(static_cast<PsVerdict>(answer));
      if (link->index() == 0) begun.place = std::move(place);
    }
    begun.gives_state = gives(verdicts.front());
    begun.is_over = verdicts.front() == PsVerdict::is_over;
    const auto is_other = [&](PsVerdict verdict) {
      return gives(verdict) != begun.gives_state ||
             (verdict == PsVerdict::is_over) != begun.is_over;
    };
    if (std::ranges::any_of(verdicts, is_other)) fail_to_begin(verdicts);
    return begun;
  }
  void put(std::size_t server, std::span<const std::byte> place, std::span<const std::byte> state) {
    links_[server]->converse(
        "begin of fit",
        [&](PsConnection& connection) {
          connection.send(PsMessage::put, {place, state}, fit_);
        },
        [](PsConnection&, const PsConnection::Head& head) { PsConnection::expect(head, 0); });
  }
  void pull(std::size_t server, std::span<std::byte> state) {
    links_[server]->converse(
        "pull", [](PsConnection& connection) { connection.send(PsMessage::pull, ""); },
        [&](PsConnection& connection, const PsConnection::Head& head) {
          PsConnection::expect(head, state.size());
          connection.receive(state);
        });
  }
  /// One step with all servers at once: an exchange for each. `place`: where this rank goes on
  /// after it.
  void step(double learning_rate, bool stop_on_non_finite, std::span<const std::byte> place,
            std::span<const double> status, std::span<const PsExchange> exchanges) {
    ++steps_;
    const auto numbers = [&](bool with_place) {
      return pack_numbers(learning_rate, std::uint64_t{stop_on_non_finite},
                          std::uint64_t{with_place ? place.size() : 0});
    };
    const auto send = [&](PsLink& link) {
      const bool with_place = link.index() == 0;
      link.connection->send(PsMessage::step,
                            {numbers(with_place), with_place ? place : std::span<const std::byte>(),
                             std::as_bytes(status), exchanges[link.index()].gradients},
                            steps_);
    };
    const auto receive = [&](PsLink& link, const PsConnection::Head& head) {
      const PsExchange& exchange = exchanges[link.index()];
      PsConnection::expect(head, exchange.status.size_bytes() + exchange.parameters.size());
      link.connection->receive(std::as_writable_bytes(exchange.status));
      link.connection->receive(exchange.parameters);
    };
    converse_with_all("step", send, receive);
  }
  /// Returns when all workers that live have called it.
  void finish() {
    // (All hear of it before any is waited for: none keeps the others waiting for this worker.)
    converse_with_all(
        "end of fit", [&](PsLink& link) { link.connection->send(PsMessage::finish, {}, fit_); },
        [](PsLink&, const PsConnection::Head& head) { PsConnection::expect(head, 0); });
  }
  /// After finish() and pull(): the chief's callbacks may have set other variables at the end of
  /// the fit, which it gives (else nothing). The others wait for that, and take them, or if they
  /// have set theirs (`wants`) what the server has. Returns whether `taken` has become that.
  [[nodiscard]] bool settle(std::size_t server, bool wants, std::span<const std::byte> given,
                            std::span<std::byte> taken) {
    bool has_taken = false;
    links_[server]->converse(
        "end of fit",
        [&](PsConnection& connection) {
          connection.send(PsMessage::settle, {pack_numbers(std::uint64_t{wants}), given}, fit_);
        },
        [&](PsConnection& connection, const PsConnection::Head& head) {
          has_taken = head.size != 0;
          if (!has_taken) return;
          PsConnection::expect(head, taken.size());
          connection.receive(taken);
        });
    return has_taken;
  }
  /// Ends the connections: the servers go on without this worker until it begins a new fit.
  void hang_up() noexcept {
    for (const auto& link : links_) {
      const std::lock_guard use(link->in_use);
      link->connection.reset();
    }
  }
  /// Of the chief: an error has ended the fit before begin(). The servers refuse those who wait. A
  /// server that is not there within 10 s does not hear of it.
  void cannot_begin(std::string_view why) noexcept {
    const auto until = Clock::now() + std::min<Clock::duration>(options_.startup_timeout,
                                                                std::chrono::seconds(10));
    for (const auto& link : links_) {
      const std::lock_guard use(link->in_use);
      while (!tells(*link, why, until) && Clock::now() < until) ::poll(nullptr, 0, 100);
    }
  }
  /// This worker will begin no other fit.
  void say_goodbye() noexcept {
    bool leaves_nothing = false;
    try {
      leaves_nothing = end_backups();
    } catch (const std::exception& error) {
      log_warning(concat({"worker ", caller_.rank,
                          ": not all parameter servers know that the training has ended (",
                          error.what(), "): their backups stay"}));
    }
    for (const auto& link : links_) {
      const std::lock_guard use(link->in_use);
      try {
        if (!link->connection) link->connect(Clock::now() + std::chrono::seconds(2));
        link->connection->send(PsMessage::goodbye, {}, leaves_nothing ? 1 : 0);
      } catch (...) {  // it notices that this worker has gone
      }
      link->connection.reset();
    }
  }

 private:
  using Clock = PsLink::Clock;

  // Whether the server wants the chief's state.
  static bool gives(PsVerdict verdict) {
    return verdict == PsVerdict::give_state || verdict == PsVerdict::give_anew;
  }

  /// Whether that is done with, or of no use; false: to be tried again.
  static bool tells(PsLink& link, std::string_view why, Clock::time_point until) noexcept {
    try {
      if (!link.connection) link.connect(until);
      link.connection->send(PsMessage::cannot, why.substr(0, ps_longest_failure));
      PsConnection::expect(link.reply("begin of fit", until), 0);
      return true;
    } catch (const ConnectionLost&) {
      link.connection.reset();
      return false;
    } catch (...) {  // the others wait for a chief that does not come
      link.connection.reset();
      return true;
    }
  }

  // They work at the same time; one that was away is asked once more, after the others.
  // (Between its messages a connection is free, for the word that this worker lives.)
  void converse_with_all(std::string_view operation, FunctionRef<void(PsLink&)> send,
                         FunctionRef<void(PsLink&, const PsConnection::Head&)> receive) {
    const auto attempt = [](PsLink& link, const auto& f) {
      const std::lock_guard use(link.in_use);
      if (!link.connection) return false;
      try {
        f(link);
        return true;
      } catch (const ConnectionLost& lost) {
        link.why = lost.what();
        link.connection.reset();
      } catch (...) {
        link.connection.reset();
        throw;
      }
      return false;
    };
    std::vector<PsLink*> away;
    for (const auto& link : links_)
      if (!attempt(*link, send)) away.push_back(link.get());
    for (const auto& link : links_) {
      if (std::ranges::find(away, link.get()) != away.end()) continue;
      const auto take = [&](PsLink& each) { receive(each, each.reply(operation, std::nullopt)); };
      if (!attempt(*link, take)) away.push_back(link.get());
    }
    for (PsLink* const link : away)
      link->converse(
          operation, [&](PsConnection&) { send(*link); },
          [&](PsConnection&, const PsConnection::Head& head) { receive(*link, head); });
  }
  // While this worker computes, or is in a callback. (In a call, it speaks itself.)
  void speak() {
    const auto interval =
        std::min<std::chrono::milliseconds>(options_.timeout / 4, std::chrono::seconds(5));
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, interval, [this] { return has_ended_; })) {
      lock.unlock();
      for (const auto& link : links_) {
        const std::unique_lock use(link->in_use, std::try_to_lock);
        if (!use.owns_lock() || !link->connection) continue;
        try {
          link->connection->send(PsMessage::alive, "");
        } catch (const ConnectionLost& lost) {
          link->why = lost.what();
          link->connection.reset();
        }
      }
      lock.lock();
    }
  }
  // Started again, servers with backups would say the same.
  [[noreturn]] void fail_to_begin(const std::vector<PsVerdict>& verdicts) {
    std::string with, without, files, missing;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const bool has_none = gives(verdicts[i]);
      const auto add = [](std::string& list, const std::string& text) {
        list += concat({list.empty() ? "" : ", ", text});
      };
      const std::string path = ps_backup_path(options_.backup_dir, static_cast<int>(i));
      add(has_none ? without : with, concat({i}));
      if (has_none)
        add(missing, concat({"'", path, "'"}));
      else
        add(files, concat({"'", path, "', '", previous_generation(path), "'"}));
    }
    const std::string state =
        without.empty() ? "parameter servers are not in the same fit"
                        : concat({"parameter servers ", with,
                                  " hold the parameters of a training, and parameter servers ",
                                  without, " do not"});
    if (options_.backup_dir.empty())
      links_.front()->fail(
          "begin of fit", Clock::now(),
          concat({state, ": give all servers a backup_dir, or start all processes again"}));
    throw ConfigurationError(
        concat({"begin of fit: worker ", caller_.rank, ": ", state, ": end all processes, ",
                missing.empty() ? "" : concat({"bring back ", missing, " to go on, or "}),
                "remove ", files, " to begin anew, and start again"}));
  }
  // The backup of server 0 says first that the training has ended, for all; then the others remove
  // theirs, and server 0 its own at the goodbye. Returns whether they have.
  [[nodiscard]] bool end_backups() {
    if (caller_.rank != 0 || fit_ == 0 || options_.backup_dir.empty() || links_.size() == 1)
      return true;
    for (const auto& link : links_) {
      const std::lock_guard use(link->in_use);
      if (!link->connection) link->connect(Clock::now() + std::chrono::seconds(2));
      link->connection->send(PsMessage::ended, "");
      const auto reply = link->reply("end of training", Clock::now() + options_.progress_limit());
      PsConnection::expect(reply, 0);
      if (reply.number == 0) return false;
    }
    return true;
  }

  const ParameterServerOptions& options_;
  const PsCaller caller_;
  std::vector<std::unique_ptr<PsLink>> links_;
  std::uint64_t fit_ = 0;  // the last one that was begun
  std::uint64_t steps_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread speaker_;
};

}}}  // namespace lockstep::detail
