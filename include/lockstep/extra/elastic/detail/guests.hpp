// The processes that have called a Membership.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_context.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/elastic/detail/talk.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A stranger until it has claimed a slot.
struct FormationGuest {
  FormationTalk talk;
  std::string ip;
  std::chrono::steady_clock::time_point since;
  int slot = -1;
  bool is_gone = false;
};

/// Takes calls, a few at a time, so that the guests that are here are heard in between. There is
/// room for many strangers; then the oldest goes, so that none can keep workers out.
class FormationGuests {
 public:
  using Clock = std::chrono::steady_clock;

  FormationGuests(Descriptor listener, std::size_t slots)
      : listener_(std::move(listener)), by_slot_(slots) {}

  void watch(std::vector<pollfd>& watched) const {
    watched.push_back({listener_.descriptor(), POLLIN, 0});
    for (const FormationGuest& guest : guests_)
      watched.push_back({guest.talk.descriptor(), guest.talk.events(), 0});
  }
  void accept(const std::shared_ptr<const TlsContext>& tls, const ClusterSecret& secret) {
    for (int i = 0; i < most_at_once; ++i) {
      SocketName peer{};
      Descriptor socket = listener_.accept(peer);
      if (!socket.is_open()) return;
      if (guests_.size() >= most_strangers + by_slot_.size())
        guests_.erase(std::ranges::find_if(
            guests_, [](const FormationGuest& guest) { return guest.slot < 0; }));
      auto session = tls == nullptr ? nullptr : TlsSession::answer(tls, socket.get());
      guests_.push_back({.talk = {{std::move(socket), std::move(session)}, secret, false},
                         .ip = ip_text(peer),
                         .since = Clock::now()});
    }
  }
  [[nodiscard]] std::list<FormationGuest>& all() noexcept { return guests_; }
  /// The guest that has claimed a slot; null if none has.
  [[nodiscard]] FormationGuest*& at(int slot) { return by_slot_[static_cast<std::size_t>(slot)]; }
  void remove_those_gone() {
    guests_.remove_if([](const FormationGuest& guest) { return guest.is_gone; });
  }

 private:
  static constexpr std::size_t most_strangers = 256;
  static constexpr int most_at_once = 16;

  ListeningSocket listener_;
  std::list<FormationGuest> guests_;
  std::vector<FormationGuest*> by_slot_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
