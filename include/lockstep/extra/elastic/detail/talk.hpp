// One conversation of a Formation, over a socket.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/meeting/conversation.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/elastic/formation_message.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A Conversation in FormationMessages; the callee's first one says that it is forming.
class FormationTalk : public Conversation {
 public:
  FormationTalk(Descriptor socket, std::unique_ptr<TlsSession> tls, const ClusterSecret& secret,
                Side side)
      : Conversation(std::move(socket), std::move(tls), secret, side, "formation",
                     std::size_t{1} << 18),
        has_greeted_(side == Side::caller) {}

  void say(const FormationMessage& message) { Conversation::say(message.text()); }
  [[nodiscard]] std::vector<FormationMessage> hear() {
    std::vector<FormationMessage> heard;
    for (const std::string& text : Conversation::hear()) {
      auto message = FormationMessage::read(text);
      if (!message) {
        close();
        break;
      }
      heard.push_back(std::move(*message));
    }
    if (has_met() && !std::exchange(has_greeted_, true)) say({});
    return heard;
  }

 private:
  bool has_greeted_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
