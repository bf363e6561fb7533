// One conversation of a Formation, over a socket.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/meeting/connection.hpp"
#include "lockstep/collectives/meeting/seal.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/elastic/formation_message.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Opens with a MeetingHello of each side. Every message has a number, and with a cluster secret a
/// proof over both hellos. The callee speaks first, so that it proves that it knows the secret
/// before the caller says which worker it is.
class FormationTalk {
 public:
  FormationTalk(MeetingConnection connection, const ClusterSecret& secret, bool is_caller)
      : connection_(std::move(connection)),
        secret_(secret),
        is_caller_(is_caller),
        mine_(MeetingHello::make(secret)) {
    if (is_caller_) connection_.send(mine_.text());
  }

  [[nodiscard]] bool is_open() const noexcept { return connection_.is_open(); }
  [[nodiscard]] int descriptor() const noexcept { return connection_.descriptor(); }
  [[nodiscard]] short events() const noexcept { return connection_.events(); }
  /// See TlsSession: what speaks against the other side being this worker.
  [[nodiscard]] std::string denies(int slot) const { return connection_.denies(slot); }
  [[nodiscard]] bool is_fixed() const noexcept { return connection_.is_fixed(); }
  /// What is wrong with the other side, as the end of a sentence about it.
  [[nodiscard]] const std::string& problem() const noexcept {
    return problem_.empty() ? connection_.problem() : problem_;
  }

  /// Not before both have said hello: then nothing is said.
  void say(const FormationMessage& message) {
    if (!seal_ || !is_open()) return;
    connection_.send(
        seal_->sealed(is_caller_ ? caller : callee, concat({said_++, "\n", message.text()})));
  }

  /// Reads what has come, and closes at its end.
  [[nodiscard]] std::vector<FormationMessage> hear() {
    std::vector<FormationMessage> heard;
    connection_.flush();
    connection_.receive(seal_ ? longest_message : longest_hello);
    while (const auto bytes = connection_.take()) {
      if (!seal_) {
        if (!take_hello(*bytes)) connection_.close();
        continue;
      }
      auto message = open(*bytes);
      if (!message) {
        connection_.close();
        break;
      }
      heard.push_back(std::move(*message));
    }
    return heard;
  }

 private:
  static constexpr std::string_view caller = "formation caller", callee = "formation callee";
  static constexpr std::size_t longest_message = std::size_t{1} << 18, longest_hello = 1024;

  [[nodiscard]] bool take_hello(const std::string& bytes) {
    const auto theirs = MeetingHello::read(bytes);
    if (!theirs) return false;
    if (!is_caller_) connection_.send(mine_.text());
    if (theirs->has_secret != secret_.is_set()) {
      problem_ = theirs->has_secret
                     ? "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none"
                     : "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
      return false;
    }
    seal_.emplace(secret_, is_caller_ ? mine_ : *theirs, is_caller_ ? *theirs : mine_);
    if (!is_caller_) say({.kind = FormationMessage::Kind::forming});
    return true;
  }

  [[nodiscard]] std::optional<FormationMessage> open(const std::string& bytes) {
    const auto content = seal_->opened(is_caller_ ? callee : caller, bytes);
    if (!content) {
      problem_ = "cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)";
      return std::nullopt;
    }
    std::uint64_t number = 0;
    const char* const begin = content->data();
    const char* const end = begin + content->size();
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || rest == end || *rest != '\n' || number != heard_++)
      return std::nullopt;
    return FormationMessage::read({rest + 1, end});
  }

  MeetingConnection connection_;
  const ClusterSecret& secret_;
  bool is_caller_;
  MeetingHello mine_;
  std::optional<MeetingSeal> seal_;
  std::string problem_;
  std::uint64_t said_ = 0, heard_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
