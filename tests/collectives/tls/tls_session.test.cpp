// Each kind of peer that TLS lets in or keeps out, over sockets of this process, without a thread.
#include "lockstep/collectives/tls/tls_session.hpp"

#include <doctest/doctest.h>

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "support/certificates.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using lockstep::detail::ClusterSecret;
using lockstep::detail::TlsContext;
using lockstep::detail::TlsSession;
using lockstep_test::Authority;
using lockstep_test::TemporaryFolder;
using SessionState = TlsSession::State;
using ContextPointer = std::shared_ptr<const TlsContext>;
using lockstep_test::contains;

namespace {

ContextPointer with_key(const std::string& secret = "correct horse battery staple") {
  return TlsContext::make({.tls = Tls::pre_shared_key}, ClusterSecret(secret), 0);
}
ContextPointer with_files(const TlsFiles& files, int rank) {
  return TlsContext::make({.tls = Tls::certificates, .files = files}, {}, rank);
}

/// Two ends that are connected by way of the test, which sees what passes and may change it.
class Line {
 public:
  enum End { caller = 0, callee = 1 };

  Line() {
    for (auto& pair : pairs_)
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) ==
              0);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    for (int end : {0, 1}) close(end);
    for (const auto& pair : pairs_) ::close(pair[1]);
  }

  [[nodiscard]] int socket(int end) const { return pairs_[index(end)][0]; }
  void close(int end) {
    if (socket(end) >= 0) ::close(std::exchange(pairs_[index(end)][0], -1));
  }
  /// Passes on what has come from both ends; what `from` has said is then in said(from).
  void pass() {
    for (const int from : {0, 1}) {
      char bytes[65536];
      for (ssize_t n = 0; (n = ::recv(pairs_[index(from)][1], bytes, sizeof bytes, 0)) > 0;) {
        said_[index(from)].append(bytes, static_cast<std::size_t>(n));
        waiting_[index(from)].append(bytes, static_cast<std::size_t>(n));
      }
      std::string& waiting = waiting_[index(from)];
      if (damages_ && waiting.size() > 40) waiting[40] = static_cast<char>(waiting[40] ^ 4);
      const ssize_t n =
          ::send(pairs_[index(1 - from)][1], waiting.data(), waiting.size(), MSG_NOSIGNAL);
      if (n > 0) waiting.erase(0, static_cast<std::size_t>(n));
    }
  }
  [[nodiscard]] const std::string& said(int end) const { return said_[index(end)]; }
  void damage() { damages_ = true; }

 private:
  static std::size_t index(int end) { return static_cast<std::size_t>(end); }

  std::array<std::array<int, 2>, 2> pairs_{};
  std::array<std::string, 2> said_, waiting_;
  bool damages_ = false;
};

/// A caller and a callee after their handshake. The caller takes the callee for rank 0.
struct Sessions {
  Sessions(const ContextPointer& of_caller, const ContextPointer& of_callee)
      : caller(TlsSession::call(of_caller, line.socket(Line::caller), 0)),
        callee(TlsSession::answer(of_callee, line.socket(Line::callee))) {
    for (int i = 0; i < 20; ++i) {
      caller->advance();
      line.pass();
      callee->advance();
      line.pass();
    }
    // A caller may hear only now that it has been refused.
    char byte = 0;
    if (caller->state() == SessionState::established) (void)caller->read(&byte, 1);
  }
  [[nodiscard]] bool agree() const {
    return caller->state() == SessionState::established &&
           callee->state() == SessionState::established && caller->problem().empty() &&
           callee->problem().empty();
  }

  Line line;
  std::unique_ptr<TlsSession> caller, callee;
};

/// What another program does with OpenSSL, at the caller's end.
class OtherCaller {
 public:
  OtherCaller(int socket, int version, const TlsFiles& files)
      : context_(::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free), ssl_(nullptr, ::SSL_free) {
    SSL_CTX_set_max_proto_version(context_.get(), version);
    if (!files.certificate.empty()) {
      REQUIRE(::SSL_CTX_use_certificate_chain_file(context_.get(), files.certificate.c_str()) == 1);
      REQUIRE(::SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM) ==
              1);
    }
    ssl_.reset(::SSL_new(context_.get()));
    ::SSL_set_fd(ssl_.get(), socket);
    ::SSL_set_connect_state(ssl_.get());
  }
  void advance() { (void)::SSL_do_handshake(ssl_.get()); }

 private:
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
};

/// What the callee says of it.
std::string judged(const ContextPointer& of_callee, const TlsFiles& files,
                   int version = TLS1_3_VERSION) {
  Line line;
  OtherCaller caller(line.socket(Line::caller), version, files);
  const auto callee = TlsSession::answer(of_callee, line.socket(Line::callee));
  for (int i = 0; i < 20; ++i) {
    caller.advance();
    line.pass();
    callee->advance();
    line.pass();
  }
  CHECK(callee->state() == SessionState::failed);
  return callee->problem();
}

std::string refusal(const TlsFiles& files, int rank) {
  try {
    (void)with_files(files, rank);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

/// Sends `text` from one end to the other, in pieces as the line takes them; what has arrived.
std::string carry(Line& line, TlsSession& from, TlsSession& to, const std::string& text) {
  std::string arrived;
  std::size_t done = 0;
  char bytes[30000];
  for (int i = 0; i < 10'000 && arrived.size() < text.size(); ++i) {
    ssize_t n = 0;
    if (done < text.size() && (n = from.write(text.data() + done, text.size() - done)) > 0)
      done += static_cast<std::size_t>(n);
    line.pass();
    while ((n = to.read(bytes, sizeof bytes)) > 0)
      arrived.append(bytes, static_cast<std::size_t>(n));
    if (n == 0 || errno != EAGAIN) break;
  }
  return arrived;
}

std::string long_text() {
  std::string text(3'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
  return text;
}

}  // namespace

TEST_SUITE("tls session") {
  TEST_CASE("by a key: both ways, in pieces, also with many keys one after the other") {
    Sessions s(with_key(), with_key());
    REQUIRE(s.agree());
    CHECK(s.callee->denies(7).empty());  // one key for all
    const std::string text = long_text();
    CHECK(carry(s.line, *s.caller, *s.callee, text) == text);
    s.callee->expect_long_messages();
    s.callee->set_records_per_key(7);
    CHECK(carry(s.line, *s.callee, *s.caller, text) == text);
    CHECK(carry(s.line, *s.caller, *s.callee, text) == text);
    CHECK_FALSE(contains(s.line.said(Line::caller), text.substr(1000, 100)));
    s.line.close(Line::caller);
    char byte = 0;
    CHECK(s.callee->read(&byte, 1) == -1);  // the test still holds the line
    CHECK(errno == EAGAIN);
  }

  TEST_CASE("the end of the stream, and bytes that are not the peer's") {
    Sessions s(with_key(), with_key());
    REQUIRE(s.agree());
    SUBCASE("changed on the way") { s.line.damage(); }
    SUBCASE("sent by another process") {
      const std::string forged =
          "\x17\x03\x03" + std::string(1, '\0') + "\x40" + std::string(64, 'a');
      REQUIRE(::send(s.line.socket(Line::caller), forged.data(), forged.size(), 0) > 0);
    }
    CHECK(carry(s.line, *s.caller, *s.callee, std::string(100, 'y')).empty());
    char byte = 0;
    for (int again = 0; again < 2; ++again) {
      CHECK(s.callee->read(&byte, 1) == -1);
      CHECK(errno == EBADMSG);
      CHECK(s.callee->write(&byte, 1) == -1);
    }
  }

  TEST_CASE("what a caller has said is of no use a second time") {
    Sessions s(with_key(), with_key());
    REQUIRE(s.agree());
    Line line;
    const auto callee = TlsSession::answer(with_key(), line.socket(Line::callee));
    const std::string& said = s.line.said(Line::caller);
    REQUIRE(::send(line.socket(Line::caller), said.data(), said.size(), 0) > 0);
    for (int i = 0; i < 10; ++i) {
      line.pass();
      callee->advance();
    }
    CHECK(callee->state() == SessionState::failed);
  }

  TEST_CASE("another secret is named by both sides; so are a key and a certificate") {
    const Sessions secrets(with_key(), with_key("wrong horse battery staple"));
    for (const TlsSession* side : {secrets.caller.get(), secrets.callee.get()})
      CHECK(side->problem() ==
            "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker");
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const auto certificates = with_files(authority.issue(0), 0);
    for (const bool key_calls : {false, true}) {
      const Sessions s(key_calls ? with_key() : certificates,
                       key_calls ? certificates : with_key());
      CHECK_FALSE(s.agree());
      for (const TlsSession* side : {s.caller.get(), s.callee.get()}) {
        CAPTURE(side->problem());
        CHECK(contains(side->problem(), "certificate"));
      }
      if (key_calls)
        CHECK(contains(s.callee->problem(),
                       "no proof for TLS in common: one may have a pre-shared "
                       "key and the other a certificate"));
    }
  }

  TEST_CASE("certificates prove ranks") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const auto zero = with_files(authority.issue(0), 0), one = with_files(authority.issue(1), 1);
    Sessions s(one, zero);
    REQUIRE(s.agree());
    CHECK(s.callee->denies(1).empty());
    CHECK(s.callee->denies(2) ==
          "claims to be worker 2, with a certificate for rank-1.lockstep, and not for "
          "rank-2.lockstep");
    CHECK(s.callee->denies(1).empty());  // in a world without worker 0
    CHECK(s.callee->denies(2) ==
          "claims to be worker 2, with a certificate for rank-1.lockstep, and not for "
          "rank-2.lockstep");
    CHECK(s.callee->denies(1).empty());
    CHECK(s.callee->denies(0) ==
          "claims to be worker 0, with a certificate for rank-1.lockstep, and not for "
          "rank-0.lockstep");
    CHECK(carry(s.line, *s.callee, *s.caller, "text") == "text");

    const Sessions wrong(zero, one);  // rank 1 answers where rank 0 should
    CHECK(wrong.caller->problem() ==
          "shows the certificate of another worker: it is for rank-1.lockstep, not for "
          "rank-0.lockstep; LOCKSTEP_TLS_CERTIFICATE must name the one of the worker itself");
    CHECK(contains(wrong.callee->problem(), "refuses this worker's certificate"));

    const Authority stranger(folder.path(), "stranger");
    const Sessions strange(with_files(stranger.issue(1), 1), zero);
    for (const TlsSession* side : {strange.caller.get(), strange.callee.get()})
      CHECK(contains(side->problem(), "LOCKSTEP_TLS_AUTHORITY"));
  }

  TEST_CASE("no certificate, an expired one, and older versions are refused with the remedy") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const auto callee = with_files(authority.issue(0), 0);
    CHECK(contains(judged(callee, {}), "shows no certificate for TLS; LOCKSTEP_TLS"));
    const std::string expired = judged(callee, authority.issue(1, -60));
    CHECK(contains(expired, "shows a certificate that has expired, by this machine's clock"));
    CHECK(contains(expired, "; make a new one"));
    for (const auto& context : {callee, with_key()})
      CHECK(judged(context, authority.issue(1), TLS1_2_VERSION) ==
            "does not speak TLS 1.3, and this worker speaks no other version");
  }

  TEST_CASE("a peer without TLS is named, and hears of it") {
    constexpr std::string_view words = "LOCKSTEP speaks in plain words";
    for (const bool calls : {false, true}) {
      Line line;
      const int end = calls ? Line::callee : Line::caller;
      const auto session = calls ? TlsSession::call(with_key(), line.socket(end), 0)
                                 : TlsSession::answer(with_key(), line.socket(end));
      REQUIRE(::send(line.socket(1 - end), words.data(), words.size(), 0) > 0);
      line.pass();
      CHECK(session->advance() == SessionState::failed);
      CHECK(contains(session->problem(), "speaks without TLS, and this worker only with it"));
      line.pass();
      CHECK(line.said(end).substr(0, 2) == (calls ? "\x16\x03" : "\x15\x03"));  // hello; an alert
    }
  }

  TEST_CASE("a worker's own files are looked at first") {
    const TemporaryFolder folder;
    const Authority authority(folder.path()), other(folder.path(), "other");
    const TlsFiles good = authority.issue(1);
    CHECK(refusal(good, 1) == "accepted");
    CHECK(contains(refusal(good, 2),
                   "is for rank-1.lockstep, and this worker needs one for rank-2.lockstep"));
    CHECK(contains(refusal(authority.issue(2, -60), 2), "has expired, by this machine's clock"));
    CHECK(contains(refusal(authority.issue("*.lockstep", "star"), 1), "is for *.lockstep"));
    TlsFiles files = good;
    files.authority = other.file();
    CHECK(contains(refusal(files, 1), "the authority of LOCKSTEP_TLS_AUTHORITY must have signed"));
    files = good;
    files.key = authority.issue(3).key;
    CHECK(contains(refusal(files, 1), "private key"));
    files.key = folder.path("nowhere");
    CHECK(contains(refusal(files, 1), "nowhere cannot be opened: No such file"));
    files.key = folder.path();
    CHECK(contains(refusal(files, 1), "is no regular file"));
    CHECK_THROWS_AS((void)TlsContext::make({.tls = Tls::pre_shared_key}, {}, 0),
                    ConfigurationError);
    CHECK(TlsContext::make({}, {}, 0) == nullptr);
  }
}

#endif
