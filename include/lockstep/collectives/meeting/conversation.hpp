// A conversation of two processes in messages of text.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The fields of a message; empty when it is none.
[[nodiscard, gnu::cold]] inline std::vector<std::string> fields_of(std::string_view message) {
  std::vector<std::string> fields;
  while (!message.empty()) {
    const auto end = message.find('\n');
    if (end == std::string_view::npos) return {};
    fields.emplace_back(message.substr(0, end));
    message.remove_prefix(end + 1);
  }
  return fields;
}

/// Whether a field is a whole number and nothing else.
template <class Number>
[[nodiscard]] bool read_number(std::string_view field, Number& value) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size();
}

/// Over a socket that does not block. After a Handshake, a message is a length (4 bytes,
/// little-endian) and as many bytes: a number, a text, and with a cluster secret a proof.
class Conversation {
 public:
  /// How long the other side's machine may be silent before the connection ends. While a process
  /// waits for others nothing is sent, so TCP's keep-alive asks.
  static constexpr std::chrono::seconds silence{6};
  enum class Side : bool { caller, callee };

  /// `tls`: a session on the socket, null without TLS. `kind`: both must have the same. `longest`:
  /// a message of more bytes ends the conversation.
  Conversation(Descriptor socket, std::unique_ptr<TlsSession> tls, const ClusterSecret& secret,
               Side side, std::string_view kind, std::size_t longest)
      : socket_{std::move(socket), std::move(tls)},
        side_(side),
        longest_(longest),
        handshake_(is_caller()
                       ? Handshake::caller(Hello::of_talk(kind), secret, 0, Hello::Channel::talk)
                       : Handshake::callee(Hello::of_talk(kind), secret)) {
    keep_alive(descriptor(), 2, 1);
    if (is_caller()) shake_hands();  // says hello; the callee hears it in hear()
  }

  [[nodiscard]] int descriptor() const noexcept { return socket_.socket.get(); }
  [[nodiscard]] bool is_open() const noexcept { return socket_.socket.is_open(); }
  void close() noexcept { socket_.socket.close(); }
  [[nodiscard]] bool has_more_to_send() const noexcept {
    return !out_.empty() || !handshake_.out().empty();
  }
  /// What to wait for.
  [[nodiscard]] short events() const noexcept {
    return socket_.stream().events(has_more_to_send());
  }
  /// Whether the handshake is over: both fit, and have proved what they must.
  [[nodiscard]] bool has_met() const noexcept { return seal_.has_value(); }
  /// Whether the other side has a secret, and this one none.
  [[nodiscard]] bool lacks_secret() const noexcept { return problem_.starts_with(secret_missing); }
  /// What is wrong with the other side, as the end of a sentence about it.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Whether it has ended because the other side is a worker that has no elastic job.
  [[nodiscard]] bool is_fixed() const noexcept { return problem_ == detail::is_fixed; }
  /// See TlsSession: what speaks against the other side being this worker.
  [[nodiscard]] std::string denies(int worker) const { return socket_.denies(worker); }

  /// Not before both have met: then nothing is said.
  void say(std::string_view text) {
    if (!seal_ || !is_open()) return;
    const std::string message =
        seal_->sealed(is_caller() ? caller_says : callee_says, concat({said_++, "\n", text}));
    for (int byte = 0; byte < 4; ++byte)
      out_ += static_cast<char>(message.size() >> (8 * byte) & 255);
    out_ += message;
    flush();
  }

  /// Sends what has had to wait, and reads what has come; closes at its end.
  [[nodiscard]] std::vector<std::string> hear() {
    std::vector<std::string> heard;
    if (!has_met()) shake_hands();
    if (!has_met()) return heard;
    flush();
    receive();
    while (const auto bytes = take()) {
      auto text = open(*bytes);
      if (!text) {
        close();
        break;
      }
      heard.push_back(std::move(*text));
    }
    return heard;
  }

 private:
  static constexpr std::string_view caller_says = "caller says", callee_says = "callee says";

  [[nodiscard]] bool is_caller() const noexcept { return side_ == Side::caller; }

  void fail() {
    if (socket_.tls != nullptr) problem_ = socket_.tls->problem();
    close();
  }

  void shake_hands() {
    if (!is_open()) return;
    const auto opening = socket_.stream().open(handshake_);
    if (opening == SecureStream::Opening::ended) return fail();
    if (opening == SecureStream::Opening::over) conclude();
  }
  void conclude() {
    if (handshake_.is_trusted()) return void(seal_.emplace(handshake_.seal()));
    problem_ = handshake_.problem();
    if (problem_ == no_secret || problem_ == secret_missing) problem_ += ": give all the same";
    char rest[4096];  // unread, it would cut off what this side has said
    (void)socket_.stream().receive(rest, sizeof rest);
    close();
  }

  [[nodiscard]] std::optional<std::string> open(const std::string& bytes) {
    const auto content = seal_->opened(is_caller() ? callee_says : caller_says, bytes);
    if (!content) {
      problem_ = cannot_prove;
      return std::nullopt;
    }
    std::uint64_t number = 0;
    const auto end = content->find('\n');
    if (end == std::string::npos || !read_number(content->substr(0, end), number) ||
        number != heard_++)
      return std::nullopt;
    return content->substr(end + 1);
  }

  // --- bytes -------------------------------------------------------------------------------------

  void flush() {
    while (is_open() && !out_.empty()) {
      const ssize_t n = socket_.stream().send(out_);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return fail();
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }
  void receive() {
    char chunk[4096];
    while (is_open() && in_.size() < longest_ + 4) {
      const ssize_t n = socket_.stream().receive(chunk, sizeof chunk);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) return fail();
      in_.append(chunk, static_cast<std::size_t>(n));
    }
    if (in_.size() >= 4 && length() > longest_) close();
  }
  [[nodiscard]] std::optional<std::string> take() {
    if (in_.size() < 4 || in_.size() - 4 < length()) return std::nullopt;
    std::string message = in_.substr(4, length());
    in_.erase(0, 4 + message.size());
    return message;
  }
  [[nodiscard]] std::size_t length() const noexcept {
    return get_number<4>(std::as_bytes(std::span(in_)).data());
  }

  SecureSocket socket_;
  Side side_;
  std::size_t longest_;
  Handshake handshake_;
  std::optional<Seal> seal_;
  std::string in_, out_, problem_;
  std::uint64_t said_ = 0, heard_ = 0;
};

/// The Conversations with those who call a port: strangers until they have claimed a place. There
/// is room for many strangers, who may keep calling; then the oldest goes, so that none can keep
/// workers out.
template <class Talk>
class Guests {
 public:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    Talk talk;
    std::string ip;
    bool is_on_this_machine;
    Clock::time_point since;
    int place = -1;       ///< once its claim is accepted
    bool leaves = false;  ///< nothing more is heard of it
  };

  Guests(ListeningSocket listener, int places)
      : listener_(std::move(listener)), most_strangers_(std::max(256, places)) {}

  [[nodiscard]] int port() const noexcept { return listener_.port(); }
  [[nodiscard]] std::list<Guest>& all() noexcept { return guests_; }
  /// First the port, then the guests.
  void watch(std::vector<pollfd>& watched) const {
    watched.push_back({listener_.descriptor(), POLLIN, 0});
    for (const Guest& guest : guests_)
      watched.push_back({guest.talk.descriptor(), guest.talk.events(), 0});
  }
  /// At most `most` of those who call, so that the guests that are here are heard in between;
  /// returns how many. `tls` is null without TLS; `rest`: further arguments of Talk.
  template <class... Rest>
  int accept(const std::shared_ptr<const TlsContext>& tls, const ClusterSecret& secret, int most,
             const Rest&... rest) {
    const auto is_stranger = [](const Guest& guest) { return guest.place < 0; };
    for (int i = 0; i < most; ++i) {
      SocketName peer{};
      Descriptor socket = listener_.accept(peer);
      if (!socket.is_open()) return i;
      if (std::ranges::count_if(guests_, is_stranger) >= most_strangers_)
        guests_.erase(std::ranges::find_if(guests_, is_stranger));
      const std::string ip = ip_text(peer);
      const bool is_here = is_loopback(ip) || ip == ip_text(own_name(socket.get()));
      auto session = TlsSession::answer(tls, socket.get());
      guests_.push_back(
          {Talk(std::move(socket), std::move(session), secret, Conversation::Side::callee, rest...),
           ip, is_here, Clock::now()});
    }
    return most;
  }

 private:
  ListeningSocket listener_;
  std::ptrdiff_t most_strangers_;
  std::list<Guest> guests_;
};

}}}  // namespace lockstep::detail
