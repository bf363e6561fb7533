// Messages of some hundred bytes over the sockets of a meeting.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Messages over a socket that does not block.
class MeetingConnection {
 public:
  /// How long the other side's machine may be silent before the connection ends. While the last
  /// ranks are awaited nothing is sent, so TCP's keep-alive asks.
  static constexpr std::chrono::seconds silence{6};

  /// `tls`: a session on the socket, null without TLS.
  MeetingConnection(Descriptor socket, std::unique_ptr<TlsSession> tls) noexcept
      : socket_(std::move(socket)), tls_(std::move(tls)) {
    keep_alive(socket_.get(), 2, 1);
  }

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  void close() noexcept { socket_.close(); }
  [[nodiscard]] bool has_more_to_send() const noexcept { return !out_.empty(); }
  /// What to wait for.
  [[nodiscard]] short events() const noexcept {
    const bool is_secure = tls_ == nullptr || tls_->state() == TlsSession::State::established;
    const bool writes =
        is_secure ? has_more_to_send() : tls_->state() == TlsSession::State::wants_write;
    return static_cast<short>(POLLIN | (writes ? POLLOUT : 0));
  }
  /// Why it has ended, where only one side speaks TLS, or the two sides' TLS do not fit together.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Whether it has ended because the other side is a worker that has no elastic job.
  [[nodiscard]] bool is_fixed() const noexcept { return is_fixed_; }
  /// See TlsSession.
  [[nodiscard]] std::string denies(int worker) const {
    return tls_ == nullptr ? std::string() : tls_->denies(worker);
  }

  /// Reads what has come; closes at the end of the stream, or for a message of more than `longest`
  /// bytes.
  void receive(std::size_t longest) {
    char chunk[4096];
    if (!secure()) return;
    while (is_open() && in_.size() < longest + 4) {
      const ssize_t n = tls_ != nullptr ? tls_->read(chunk, sizeof chunk)
                                        : ::recv(socket_.get(), chunk, sizeof chunk, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) {
        fail();
        break;
      }
      in_.append(chunk, static_cast<std::size_t>(n));
    }
    if (in_.size() >= 4 && length() > longest) refuse();
  }
  [[nodiscard]] std::optional<std::string> take() {
    if (in_.size() < 4 || in_.size() - 4 < length()) return std::nullopt;
    std::string message = in_.substr(4, length());
    in_.erase(0, 4 + message.size());
    return message;
  }
  void send(std::string_view message) {
    for (int byte = 0; byte < 4; ++byte)
      out_ += static_cast<char>(message.size() >> (8 * byte) & 255);
    out_ += message;
    flush();
  }
  void flush() {
    if (out_.empty() || !secure()) return;
    while (is_open() && !out_.empty()) {
      const ssize_t n = tls_ != nullptr
                            ? tls_->write(out_.data(), out_.size())
                            : ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return fail();
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }

 private:
  // Whether messages may go now: TLS, if there is any, comes first.
  [[nodiscard]] bool secure() {
    if (!is_open()) return false;
    if (tls_ == nullptr || tls_->advance() == TlsSession::State::established) return true;
    if (tls_->state() == TlsSession::State::failed) fail();
    return false;
  }
  void fail() {
    if (tls_ != nullptr) problem_ = tls_->problem();
    close();
  }

  // A peer with TLS sends a handshake record, or an alert. It knows from any plain words that this
  // worker has none.
  void refuse() {
    constexpr char alert = 21, handshake = 22;
    is_fixed_ = in_.starts_with(Hello::magic) || in_.starts_with(Hello::fixed_words);
    if (is_fixed_) {
      problem_ = Hello::is_fixed;
      if (in_.starts_with(Hello::magic)) send_words(Hello::elastic_words);
    }
    if (tls_ == nullptr && (in_[0] == alert || in_[0] == handshake) && in_[1] == 3) {
      problem_ =
          "speaks TLS only, and this worker does without; LOCKSTEP_TLS (or "
          "CommunicationOptions::tls) must be the same on all workers";
      constexpr std::string_view words = "lockstep: no TLS\n";
      if (in_[0] == handshake) send_words(words);
    }
    close();
  }
  void send_words(std::string_view words) {
    (void)!(tls_ != nullptr ? tls_->write(words.data(), words.size())
                            : ::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL));
  }

  [[nodiscard]] std::size_t length() const noexcept {
    std::size_t size = 0;
    for (std::size_t byte = 0; byte < 4; ++byte)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(in_[byte])) << (8 * byte);
    return size;
  }

  Descriptor socket_;
  std::unique_ptr<TlsSession> tls_;
  std::string in_;
  std::string out_;
  std::string problem_;
  bool is_fixed_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
