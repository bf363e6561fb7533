// A conversation of two processes in messages of text, which opens with proofs of the secret.
#pragma once

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/meeting/seal.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Over a socket that does not block: a message is a length (4 bytes, little-endian) and as many
/// bytes of text. Opens with a MeetingHello of each side. Every message that follows has a number,
/// and with a cluster secret a proof over both hellos. The callee speaks first, so that it proves
/// that it knows the secret before the caller says which worker it is.
class Conversation {
 public:
  /// How long the other side's machine may be silent before the connection ends. While a process
  /// waits for others nothing is sent, so TCP's keep-alive asks.
  static constexpr std::chrono::seconds silence{6};

  /// `tls`: a session on the socket, null without TLS. `kind`: nothing that is proved in a
  /// conversation of one kind counts in one of another. `greeting`: what the callee says first; the
  /// caller has none. `longest`: a message of more bytes ends the conversation.
  Conversation(Descriptor socket, std::unique_ptr<TlsSession> tls, const ClusterSecret& secret,
               std::string_view kind, std::size_t longest, std::string greeting = {})
      : socket_{std::move(socket), std::move(tls)},
        secret_(secret),
        greeting_(std::move(greeting)),
        own_role_(concat({kind, is_caller() ? " caller" : " callee"})),
        peers_role_(concat({kind, is_caller() ? " callee" : " caller"})),
        longest_(longest),
        mine_(MeetingHello::make(secret)) {
    keep_alive(descriptor(), 2, 1);
    if (is_caller()) send(mine_.text());
  }

  [[nodiscard]] int descriptor() const noexcept { return socket_.socket.get(); }
  [[nodiscard]] bool is_open() const noexcept { return socket_.socket.is_open(); }
  void close() noexcept { socket_.socket.close(); }
  [[nodiscard]] bool has_more_to_send() const noexcept { return !out_.empty(); }
  /// What to wait for.
  [[nodiscard]] short events() const noexcept { return socket_.events(has_more_to_send()); }
  /// Whether both have said hello.
  [[nodiscard]] bool has_met() const noexcept { return seal_.has_value(); }
  /// Whether the other side has a secret, and this one none.
  [[nodiscard]] bool lacks_secret() const noexcept { return lacks_secret_; }
  /// What is wrong with the other side, as the end of a sentence about it.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Whether it has ended because the other side is a worker that has no elastic job.
  [[nodiscard]] bool is_fixed() const noexcept { return problem_ == Hello::is_fixed; }
  /// See TlsSession: what speaks against the other side being this worker.
  [[nodiscard]] std::string denies(int worker) const {
    return socket_.tls == nullptr ? std::string() : socket_.tls->denies(worker);
  }

  /// Not before both have said hello: then nothing is said.
  void say(std::string_view text) {
    if (seal_ && is_open()) send(seal_->sealed(own_role_, concat({said_++, "\n", text})));
  }

  /// Sends what has had to wait, and reads what has come; closes at its end.
  [[nodiscard]] std::vector<std::string> hear() {
    std::vector<std::string> heard;
    flush();
    receive();
    while (const auto bytes = take()) {
      const bool is_hello = !seal_;
      auto text = is_hello ? take_hello(*bytes) : open(*bytes);
      if (!text) {
        close();
        break;
      }
      if (!is_hello) heard.push_back(std::move(*text));
    }
    return heard;
  }

 private:
  static constexpr std::size_t longest_opening = 1024;

  [[nodiscard]] bool is_caller() const noexcept { return greeting_.empty(); }
  // The callee's hello and greeting are short: what has proved nothing takes no memory.
  [[nodiscard]] std::size_t longest() const noexcept {
    return !seal_ || (is_caller() && heard_ == 0) ? longest_opening : longest_;
  }

  // --- proofs ------------------------------------------------------------------------------------

  // Nothing where the two do not fit; else nothing is said by it.
  [[nodiscard]] std::optional<std::string> take_hello(const std::string& bytes) {
    const auto theirs = MeetingHello::read(bytes);
    if (!theirs) return std::nullopt;
    if (!is_caller()) send(mine_.text());
    if (theirs->has_secret != secret_.is_set()) {
      lacks_secret_ = theirs->has_secret;
      problem_ = concat({lacks_secret_ ? secret_missing : no_secret, ": give all the same"});
      return std::nullopt;
    }
    seal_.emplace(secret_, is_caller() ? mine_ : *theirs, is_caller() ? *theirs : mine_);
    if (!is_caller()) say(greeting_);
    return std::string();
  }

  [[nodiscard]] std::optional<std::string> open(const std::string& bytes) {
    auto content = seal_->opened(peers_role_, bytes);
    if (!content) {
      problem_ = cannot_prove;
      return std::nullopt;
    }
    std::uint64_t number = 0;
    const char* const begin = content->data();
    const char* const end = begin + content->size();
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || rest == end || *rest != '\n' || number != heard_++)
      return std::nullopt;
    return std::string(rest + 1, end);
  }

  // --- bytes -------------------------------------------------------------------------------------

  void send(std::string_view message) {
    for (int byte = 0; byte < 4; ++byte)
      out_ += static_cast<char>(message.size() >> (8 * byte) & 255);
    out_ += message;
    flush();
  }
  void flush() {
    if (out_.empty() || !secure()) return;
    while (is_open() && !out_.empty()) {
      const ssize_t n = socket_.send(out_);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return fail();
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }
  void receive() {
    char chunk[4096];
    if (!secure()) return;
    while (is_open() && in_.size() < longest() + 4) {
      const ssize_t n = socket_.receive(chunk, sizeof chunk);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) {
        fail();
        break;
      }
      in_.append(chunk, static_cast<std::size_t>(n));
    }
    if (in_.size() >= 4 && length() > longest()) refuse();
  }
  [[nodiscard]] std::optional<std::string> take() {
    if (in_.size() < 4 || in_.size() - 4 < length()) return std::nullopt;
    std::string message = in_.substr(4, length());
    in_.erase(0, 4 + message.size());
    return message;
  }
  [[nodiscard]] std::size_t length() const noexcept {
    std::size_t size = 0;
    for (std::size_t byte = 0; byte < 4; ++byte)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(in_[byte])) << (8 * byte);
    return size;
  }

  // Whether messages may go now: TLS, if there is any, comes first.
  [[nodiscard]] bool secure() {
    if (!is_open()) return false;
    const TlsSession::State state = socket_.advance();
    if (state == TlsSession::State::failed) fail();
    return state == TlsSession::State::established;
  }
  void fail() {
    if (socket_.tls != nullptr) problem_ = socket_.tls->problem();
    close();
  }

  // Something longer than any message: a peer with TLS sends a handshake record, or an alert, and
  // knows from any plain words that this worker has none.
  void refuse() {
    const bool is_hello = in_.starts_with(Hello::magic);
    if (is_hello || in_.starts_with(Hello::fixed_words)) problem_ = Hello::is_fixed;
    if (is_hello) (void)socket_.send(Hello::elastic_words);
    if (socket_.tls == nullptr && is_tls(in_)) {
      problem_ = speaks_tls_only;
      if (in_[0] == first_of_handshake) (void)socket_.send(no_tls_words);
    }
    close();
  }

  SecureSocket socket_;
  const ClusterSecret& secret_;
  std::string greeting_, own_role_, peers_role_;
  std::size_t longest_;
  MeetingHello mine_;
  std::optional<MeetingSeal> seal_;
  std::string in_, out_, problem_;
  std::uint64_t said_ = 0, heard_ = 0;
  bool lacks_secret_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
