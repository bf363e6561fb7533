// What opens each TCP connection, apart from any socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// One side of a handshake: bytes that came go into take(), bytes to be sent come out of out().
///
/// Without a secret, the side that has connected (the **caller**) says hello, the other one (the
/// **callee**) answers with its hello, and both look for a difference. A caller that does not know
/// the cluster's list of addresses gets a bare hello, which only says in what the two differ. With
/// a secret, the callee tells nothing until the caller has proved that it knows the secret, and the
/// caller believes nothing until the callee has:
///
///     caller                                callee
///     hello, with a nonce             ->
///                                     <-    bare hello, with a nonce
///     proof("caller", what was said)  ->
///                                     <-    hello, proof("callee", what was said),
///                                           or bare hello: refused
///
/// What was said holds both nonces, and so is never the same again: neither a recording nor
/// something that the same side has said elsewhere is of any use. It holds ranks, channel,
/// incarnation, cluster and properties of both sides, too.
class Handshake {
 public:
  enum class Outcome {
    open,      ///< goes on
    agreed,    ///< both fit together
    refused,   ///< problem() says why; so will the peer, once it has what is in out()
    stranger,  ///< the peer is no worker of any cluster, or cannot prove that it is one of ours
    myself,    ///< this worker met itself
    at_work,   ///< the caller: the callee is a worker whose start-up is over
  };

  [[nodiscard]] static Handshake caller(const Hello& mine, const ClusterSecret& secret, int peer,
                                        Hello::Channel channel, std::uint16_t lane = 0) {
    Handshake result(mine, secret, "caller", "callee");
    result.introduce(peer, channel, lane);
    result.talks_ = channel == Hello::Channel::talk;
    result.transcript_ = result.out_ = result.mine_.encode();
    return result;
  }
  [[nodiscard]] static Handshake callee(const Hello& mine, const ClusterSecret& secret) {
    return {mine, secret, "callee", "caller"};
  }

  /// For a worker whose start-up is over: it answers only probes.
  [[nodiscard]] static Handshake callee_at_work(const Hello& mine, const ClusterSecret& secret) {
    Handshake result = callee(mine, secret);
    result.at_work_ = true;
    return result;
  }

  [[nodiscard]] Outcome outcome() const noexcept { return outcome_; }
  /// Whether the peer has proved that it knows the secret.
  [[nodiscard]] bool is_authenticated() const noexcept { return authenticated_; }
  /// Whether both fit, and the peer has proved what it must.
  [[nodiscard]] bool is_trusted() const noexcept {
    return outcome_ == Outcome::agreed && (authenticated_ || !secret_.is_set());
  }
  /// For the messages that follow it, once it is trusted.
  [[nodiscard]] Seal seal() const { return {secret_, transcript_}; }
  /// The peer's hello, once the outcome is agreed or refused.
  [[nodiscard]] const Hello& theirs() const noexcept { return theirs_; }
  /// What keeps the two apart, as the end of a sentence about the peer. Empty when they fit.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  [[nodiscard]] std::string_view out() const noexcept { return out_; }
  void sent(std::size_t bytes) { out_.erase(0, bytes); }

  /// How many bytes may be read next: none of those that follow the handshake.
  [[nodiscard]] std::size_t wanted() const noexcept {
    return (awaits_proof_ ? proof_bytes : Hello::wanted(in_)) - in_.size();
  }
  /// Takes up to wanted() bytes.
  [[gnu::cold]] void take(std::string_view bytes) {
    in_ += bytes;
    if (!awaits_proof_ && !Hello::may_begin(in_, mine_.longest_to_read())) return estrange();
    if (wanted() > 0) return;
    const std::string message = std::exchange(in_, {});
    if (awaits_proof_)
      take_proof(message);
    else
      take_hello(message);
  }

 private:
  Handshake(const Hello& mine, const ClusterSecret& secret, std::string_view role,
            std::string_view peers_role)
      : mine_(mine), secret_(secret), role_(role), peers_role_(peers_role), talks_(mine.is_talk()) {
    if (!secret_.is_set()) return;
    mine_.authentication = Hello::Authentication::hmac_sha256;
    mine_.nonce = make_nonce();
  }

  [[nodiscard]] bool is_caller() const noexcept { return role_ == "caller"; }

  void introduce(int peer, Hello::Channel channel, std::uint16_t lane) {
    mine_.to = peer;
    mine_.channel = channel;
    mine_.lane = lane;
  }

  void refuse(std::string problem) {
    problem_ = std::move(problem);
    outcome_ = Outcome::refused;
  }
  // A peer with TLS begins with a handshake record, or ends with an alert. Told anything in plain
  // words, it knows that this worker has none.
  void estrange() {
    outcome_ = Outcome::stranger;
    if (in_.front() != first_of_alert && in_.front() != first_of_handshake) return;
    if (!is_caller()) out_ = Hello().encode();
    problem_ = speaks_tls_only;
  }
  void distrust() {
    problem_ = cannot_prove;
    outcome_ = Outcome::stranger;
  }
  void compare() {
    problem_ = difference(mine_, theirs_);
    outcome_ = problem_.empty() ? Outcome::agreed : Outcome::refused;
  }

  void take_hello(const std::string& message) {
    Hello theirs;
    if (!Hello::decode(message, theirs)) {
      outcome_ = Outcome::stranger;
    } else if (theirs.version == mine_.version && theirs.incarnation == mine_.incarnation) {
      outcome_ = Outcome::myself;
    } else if (theirs.version == mine_.version && theirs.is_talk() != talks_) {
      if (!is_caller()) out_ = bare(Hello::Authentication::none);
      problem_ = talks_ ? Hello::is_fixed : Hello::is_elastic;
      outcome_ = is_caller() ? Outcome::refused : Outcome::stranger;
    } else if (is_caller()) {
      take_answer(message, std::move(theirs));
    } else {
      theirs_ = std::move(theirs);
      introduce(theirs_.from, theirs_.channel,
                theirs_.channel == Hello::Channel::control ? mine_.lane : theirs_.lane);
      if (at_work_ && theirs_.channel != Hello::Channel::probe) return send_away();
      if (secret_.is_set()) return challenge(message);
      compare();
      const bool knows_cluster =
          theirs_.version == mine_.version && other_cluster(mine_, theirs_).empty();
      out_ = knows_cluster ? mine_.encode() : refusal();
    }
  }

  void send_away() {
    out_ = bare(Hello::Authentication::at_work);
    problem_ = "comes while the cluster is at work";
    outcome_ = Outcome::stranger;
  }

  [[nodiscard]] std::string refusal() const {
    Hello hello = bare_hello(Hello::Authentication::none);
    if (theirs_.version == mine_.version)
      hello.properties.emplace_back(Hello::refusal, other_cluster(mine_, theirs_));
    return hello.encode();
  }

  // The callee: tells no more than what the caller knows already.
  void challenge(const std::string& hello) {
    transcript_ = hello + (out_ = bare(mine_.authentication));
    if (theirs_.version != mine_.version || theirs_.authentication != mine_.authentication)
      return compare();
    awaits_proof_ = true;
    theirs_ = {};  // it takes many times the memory of its bytes, and perhaps no proof ever comes
  }

  [[nodiscard]] std::string bare(Hello::Authentication authentication) const {
    return bare_hello(authentication).encode();
  }
  [[nodiscard]] Hello bare_hello(Hello::Authentication authentication) const {
    Hello hello;
    hello.channel = mine_.channel;
    hello.lane = theirs_.lane;
    hello.from = mine_.from;
    hello.to = mine_.to;
    hello.authentication = authentication;
    hello.nonce = mine_.nonce;
    return hello;
  }

  // The caller: the answer is the callee's hello, or a bare one that demands a proof or refuses the
  // one that it got.
  void take_answer(const std::string& message, Hello theirs) {
    const bool demands = theirs.version == mine_.version && theirs.is_bare();
    if (demands && theirs.authentication == Hello::Authentication::at_work) {
      problem_ =
          "is at work with the others, and has not noticed yet that it lost the one that had this "
          "place";
      outcome_ = Outcome::at_work;
      return;
    }
    if (demands && theirs.authentication == Hello::Authentication::none) {
      theirs_ = std::move(theirs);
      return refuse(secret_.is_set() ? no_secret : named_refusal());
    }
    if (demands && secret_.is_set() && theirs.authentication == mine_.authentication && !proved_) {
      proved_ = true;
      transcript_ += message;
      out_ += secret_.prove(role_, transcript_);
      return;
    }
    if (demands) return refuse(secret_.is_set() ? other_secret : secret_missing);
    theirs_ = std::move(theirs);
    const bool must_prove = secret_.is_set() && theirs_.version == mine_.version &&
                            theirs_.authentication == mine_.authentication;
    if (!must_prove) return compare();
    // It did not ask for our proof, without which it cannot make one itself.
    if (!proved_) return distrust();
    transcript_ += message;
    awaits_proof_ = true;
  }

  void take_proof(const std::string& proof) {
    authenticated_ = secret_.accepts(proof, peers_role_, transcript_);
    if (is_caller()) return authenticated_ ? compare() : distrust();
    (void)Hello::decode(transcript_.substr(0, Hello::wanted(transcript_)), theirs_);  // once more
    if (!authenticated_) {
      out_ += bare(Hello::Authentication::refused);
      return refuse(other_secret);
    }
    const std::string hello = mine_.encode();
    transcript_ += hello;
    out_ += hello + secret_.prove(role_, transcript_);
    compare();
  }

  // What the callee has said of the difference.
  [[nodiscard]] std::string named_refusal() const {
    std::string what = "cluster";
    for (const auto& [name, value] : theirs_.properties)
      if (name == Hello::refusal && !value.empty()) what = printable(value, 100);
    return concat(
        {"has another ", what, " than this worker (which does not tell its own to strangers)"});
  }

  static constexpr const char* other_secret =
      "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";

  Hello mine_;
  ClusterSecret secret_;
  std::string_view role_;
  std::string_view peers_role_;
  Hello theirs_;
  std::string in_;
  std::string out_;
  std::string transcript_;
  std::string problem_;
  Outcome outcome_ = Outcome::open;
  bool talks_;
  bool at_work_ = false;
  bool awaits_proof_ = false;
  bool proved_ = false;  // the caller: it has sent its proof
  bool authenticated_ = false;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
