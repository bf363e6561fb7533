// A process that calls the door where the worlds of an elastic cluster are formed, and claims to be
// one of its workers.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/extra/elastic/formation.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep_test {

/// Claims to be worker `slot` at the door of worker `called`, as one that fits in all else. What
/// the stranger has heard when the door closes: how many messages, and what its own side says
/// against the other one.
struct Claimed {
  int messages = 0;
  std::string problem;
  bool is_closed = false;
};
inline Claimed claim_slot(const std::string& address,
                          const std::shared_ptr<const lockstep::detail::TlsContext>& tls,
                          int called, int slot, int slots, int min_workers,
                          const std::string& build = {},
                          std::chrono::milliseconds stays = std::chrono::seconds(12)) {
  namespace ls = lockstep;
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  std::string why;
  const ls::Address to = ls::parse_address(address);
  const auto names = ls::detail::resolve(to.host, to.port, why);
  if (names.empty()) throw std::runtime_error(why);
  auto socket = ls::detail::call_socket(names[0], Clock::now() + std::chrono::seconds(5), why);
  if (!socket.is_open()) throw std::runtime_error(why);
  auto session = ls::detail::TlsSession::call(tls, socket.get(), called);
  const ls::detail::ClusterSecret none;
  ls::detail::FormationTalk talk(std::move(socket), std::move(session), none,
                                 ls::detail::Conversation::Side::caller);
  Claimed claimed;
  const auto end = Clock::now() + stays;
  for (; talk.is_open() && Clock::now() < end; std::this_thread::sleep_for(milliseconds(1))) {
    const auto messages = static_cast<int>(talk.hear().size());
    if (messages > 0 && claimed.messages == 0)  // the door has said hello
      talk.say({.kind = ls::detail::FormationMessage::Kind::claim,
                .slot = slot,
                .slots = slots,
                .min_workers = min_workers,
                .version = 1,
                .address = "127.0.0.1:1",
                .build = build});
    claimed.messages += messages;
  }
  claimed.problem = talk.problem();
  claimed.is_closed = !talk.is_open();
  return claimed;
}

}  // namespace lockstep_test
