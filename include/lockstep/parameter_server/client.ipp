#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/parameter_server/client.hpp"
#include "lockstep/parameter_server/numbers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[nodiscard]] LOCKSTEP_INLINE std::uint64_t draw_process_number() {
  const std::string nonce = make_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return number;
}

LOCKSTEP_INLINE ParameterClient::ParameterClient(int rank, int workers,
                                                 const std::vector<std::string>& servers,
                                                 const ParameterServerOptions& options,
                                                 PsTrust trust)
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

LOCKSTEP_INLINE ParameterClient::~ParameterClient() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
  speaker_.join();
}

// While this worker computes, or is in a callback. (In a call, it speaks itself.)
LOCKSTEP_INLINE void ParameterClient::speak() {
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

LOCKSTEP_INLINE PsBegun ParameterClient::begin(std::uint64_t fit, std::string_view signature) {
  PsBegun begun;
  fit_ = fit;
  const auto until = Clock::now() + std::max(options_.startup_timeout, options_.progress_limit());
  for (const auto& each : links_) {
    PsLink& link = *each;
    const std::lock_guard use(link.in_use);
    std::uint64_t answer = 0;
    std::vector<std::byte> place;
    link.converse(
        "begin of fit",
        [&](PsConnection& connection) {
          connection.send(PsMessage::begin,
                          {pack_numbers(fit), std::as_bytes(std::span(signature))});
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
    const auto verdict = static_cast<PsVerdict>(answer);
    const bool gives = verdict == PsVerdict::give_state, is_over = verdict == PsVerdict::is_over;
    if (link.index() == 0)
      begun = {.gives_state = gives, .is_over = is_over, .place = std::move(place)};
    else if (gives != begun.gives_state || is_over != begun.is_over)
      link.fail("begin of fit", Clock::now(),
                gives || is_over
                    ? "it and parameter server 0 are not in the same fit: start all processes again"
                    : "it holds parameters, and parameter server 0 does not: give all servers a "
                      "backup_dir, or start all processes again");
  }
  return begun;
}

LOCKSTEP_INLINE void ParameterClient::put(std::size_t server, std::span<const std::byte> place,
                                          std::span<const std::byte> state) {
  PsLink& link = *links_[server];
  const std::lock_guard use(link.in_use);
  link.converse(
      "begin of fit",
      [&](PsConnection& connection) {
        connection.send(PsMessage::put, {place, state}, fit_);
      },
      [](PsConnection&, const PsConnection::Head& head) { PsConnection::expect(head, 0); });
}

LOCKSTEP_INLINE void ParameterClient::pull(std::size_t server, std::span<std::byte> state) {
  PsLink& link = *links_[server];
  const std::lock_guard use(link.in_use);
  link.converse(
      "pull", [](PsConnection& connection) { connection.send(PsMessage::pull, ""); },
      [&](PsConnection& connection, const PsConnection::Head& head) {
        PsConnection::expect(head, state.size());
        connection.receive(state);
      });
}

LOCKSTEP_INLINE void ParameterClient::step(double learning_rate, bool stop_on_non_finite,
                                           std::span<const std::byte> place,
                                           std::span<const double> status,
                                           std::span<const PsExchange> exchanges) {
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

// They work at the same time; one that was away is asked once more, when the others have answered.
// (Between its messages a connection is free, for the word that this worker lives.)
LOCKSTEP_INLINE void ParameterClient::converse_with_all(
    std::string_view operation, FunctionRef<void(PsLink&)> send,
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
  for (PsLink* const link : away) {
    const std::lock_guard use(link->in_use);
    link->converse(
        operation, [&](PsConnection&) { send(*link); },
        [&](PsConnection&, const PsConnection::Head& head) { receive(*link, head); });
  }
}

LOCKSTEP_INLINE void ParameterClient::finish() {
  // (All hear of it before any is waited for: none keeps the others waiting for this worker.)
  converse_with_all(
      "end of fit", [&](PsLink& link) { link.connection->send(PsMessage::finish, {}, fit_); },
      [](PsLink&, const PsConnection::Head& head) { PsConnection::expect(head, 0); });
}

LOCKSTEP_INLINE void ParameterClient::hang_up() noexcept {
  for (const auto& link : links_) {
    const std::lock_guard use(link->in_use);
    link->connection.reset();
  }
}

LOCKSTEP_INLINE void ParameterClient::say_goodbye() noexcept {
  for (const auto& link : links_) {
    const std::lock_guard use(link->in_use);
    try {
      if (!link->connection) link->connect(Clock::now() + std::chrono::seconds(2));
      link->connection->send(PsMessage::goodbye, "");
    } catch (...) {  // it notices that this worker has gone
    }
    link->connection.reset();
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
