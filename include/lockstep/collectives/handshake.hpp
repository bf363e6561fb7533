// The conversation that opens each TCP connection, apart from any socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/authentication.hpp"
#include "lockstep/collectives/hello.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// One side of a handshake: bytes that came go into take(), bytes to be sent come out of out().
///
/// Without a secret, the side that has connected (the **caller**) says hello, the other one (the **callee**) answers with its
/// hello, and both look for a difference. With a secret, the callee tells nothing before the caller has proved that it
/// knows the secret, and the caller believes nothing before the callee has:
///
///     caller                                        callee
///     hello, with a nonce               ->
///                                       <-          bare hello, with a nonce
///     proof("caller", what was said)    ->
///                                       <-          hello, proof("callee", what was said), or bare hello: refused
///
/// What was said holds both nonces, and so is never the same again: neither a recording nor something that the same side has
/// said elsewhere is of any use. It holds ranks, channel, incarnation, cluster and properties of both sides, too.
class Handshake {
 public:
  enum class Outcome {
    open,      ///< goes on
    agreed,    ///< both fit together
    refused,   ///< problem() says why; so will the peer, once it has what is in out()
    stranger,  ///< the peer is no worker of any cluster, or cannot prove that it is one of ours
    myself,    ///< this worker met itself
  };

  [[nodiscard]] static Handshake caller(const Hello& mine, const ClusterSecret& secret, int peer,
                                        Hello::Channel channel, std::uint16_t lane = 0) {
    Handshake result(mine, secret, "caller", "callee");
    result.introduce(peer, channel, lane);
    result.transcript_ = result.out_ = result.mine_.encode();
    return result;
  }
  [[nodiscard]] static Handshake callee(const Hello& mine, const ClusterSecret& secret) {
    return {mine, secret, "callee", "caller"};
  }

  [[nodiscard]] Outcome outcome() const noexcept { return outcome_; }
  /// Whether the peer has proved that it knows the secret.
  [[nodiscard]] bool is_authenticated() const noexcept { return authenticated_; }
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
    if (!awaits_proof_ && !Hello::may_begin(in_, mine_.longest_to_read())) {
      outcome_ = Outcome::stranger;
      return;
    }
    if (wanted() > 0) return;
    const std::string message = std::exchange(in_, {});
    if (awaits_proof_)
      take_proof(message);
    else
      take_hello(message);
  }

 private:
  Handshake(const Hello& mine, const ClusterSecret& secret, std::string_view role, std::string_view peers_role)
      : mine_(mine), secret_(secret), role_(role), peers_role_(peers_role) {
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
  void distrust() {
    problem_ = "cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)";
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
    } else if (is_caller()) {
      take_answer(message, std::move(theirs));
    } else {
      theirs_ = std::move(theirs);
      introduce(theirs_.from, theirs_.channel, theirs_.channel == Hello::Channel::control ? mine_.lane : theirs_.lane);
      if (secret_.is_set()) return challenge(message);
      out_ = mine_.encode();
      compare();
    }
  }

  // The callee: tells no more than what the caller knows already.
  void challenge(const std::string& hello) {
    transcript_ = hello + (out_ = bare(mine_.authentication));
    if (theirs_.version != mine_.version || theirs_.authentication != mine_.authentication) return compare();
    awaits_proof_ = true;
    theirs_ = {};  // it takes many times the memory of its bytes, and perhaps no proof ever comes
  }

  [[nodiscard]] std::string bare(Hello::Authentication authentication) const {
    Hello hello;
    hello.channel = mine_.channel;
    hello.lane = theirs_.lane;
    hello.from = mine_.from;
    hello.to = mine_.to;
    hello.authentication = authentication;
    hello.nonce = mine_.nonce;
    return hello.encode();
  }

  // The caller: the answer is the callee's hello, or a bare one that demands a proof or refuses the one that it got.
  void take_answer(const std::string& message, Hello theirs) {
    const bool demands = theirs.version == mine_.version && theirs.is_bare();
    if (demands && secret_.is_set() && theirs.authentication == mine_.authentication && !proved_) {
      proved_ = true;
      transcript_ += message;
      out_ += secret_.prove(role_, transcript_);
      return;
    }
    if (demands) return refuse(secret_.is_set() ? other_secret : secret_missing);
    theirs_ = std::move(theirs);
    const bool must_prove =
        secret_.is_set() && theirs_.version == mine_.version && theirs_.authentication == mine_.authentication;
    if (!must_prove) return compare();
    if (!proved_) return distrust();  // it did not ask for our proof, without which it cannot make its own
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
    out_ += hello + secret_.prove(role_, transcript_ + hello);
    compare();
  }

  static constexpr const char* other_secret = "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";
  static constexpr const char* secret_missing = "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";

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
  bool awaits_proof_ = false;
  bool proved_ = false;  // the caller: it has sent its proof
  bool authenticated_ = false;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
