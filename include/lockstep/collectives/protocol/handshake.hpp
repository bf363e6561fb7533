// What opens each TCP connection, apart from any socket.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// A peer with TLS begins with a handshake record, or ends with an alert: their first bytes. It
// knows from any plain words that this process has none.
inline constexpr char first_of_alert = 21, first_of_handshake = 22;

/// The speaker, the rank that it speaks to, and what both must have in common. On the wire: a
/// prefix of fixed size, whose fields keep their places in all versions of the protocol,
///     magic "LOCKSTEP" | version 4 | payload length 4 | channel 2 | lane 2 | from 4 | to 4 |
///     world 4 | incarnation 8
/// and a payload: authentication 4 | nonce 32 | texts, each a length (4 bytes) and as many bytes:
/// the addresses, then name and value of each property. A bare hello has no addresses and a world
/// of 0: it tells nothing about the cluster.
struct Hello {
  static constexpr std::string_view magic = "LOCKSTEP";
  static constexpr std::uint32_t this_version = 1;
  static constexpr std::size_t prefix_bytes = 40;
  static constexpr std::size_t longest_payload = std::size_t{1} << 20;

  enum class Channel : std::uint16_t {
    data = 0,
    control = 1,
    probe = 2,  ///< to learn whether a rank's process lives: the connection ends with the handshake
    talk = 3,   ///< a Conversation, whose kind stands for the list of addresses; ranks are 0
  };
  enum class Authentication : std::uint32_t {
    none = 0,
    hmac_sha256 = 1,  ///< I know the cluster's secret: prove that you do
    refused = 2,      ///< what you have sent is no proof
    at_work = 3,      ///< bare: the start-up is over; come again when the cluster meets anew
  };

  std::uint32_t version = this_version;
  Channel channel = Channel::data;
  /// Which of the connections for data; for control the last one, which both must have in common.
  std::uint16_t lane = 0;
  int from = 0;
  int to = 0;
  std::uint64_t incarnation = 0;  ///< differs between two processes that have the same rank
  Authentication authentication = Authentication::none;
  std::string nonce = std::string(nonce_bytes, '\0');  ///< zeros without authentication
  std::vector<std::string> addresses;
  std::vector<std::pair<std::string, std::string>> properties;

  /// Opens a Conversation. Nothing that is proved in one kind counts in another.
  [[nodiscard]] static Hello of_talk(std::string_view kind) {
    Hello hello;
    hello.channel = Channel::talk;
    hello.addresses.emplace_back(kind);
    const std::string random = make_nonce();
    std::memcpy(&hello.incarnation, random.data(), sizeof hello.incarnation);
    return hello;
  }
  [[nodiscard]] bool is_talk() const noexcept { return channel == Channel::talk; }

  /// The name of the property in which a bare answer says what keeps the caller out, as in "world
  /// size".
  static constexpr std::string_view refusal = "another";

  [[nodiscard]] bool is_bare() const noexcept { return addresses.empty(); }

  /// Throws ConfigurationError when addresses and properties are longer than 1 MiB.
  [[nodiscard, gnu::cold]] std::string encode() const {
    std::string payload(4, '\0');
    put_number<4>(reinterpret_cast<std::byte*>(payload.data()),
                  static_cast<std::uint32_t>(authentication));
    payload += nonce;
    const auto put_text = [&](std::string_view text) {
      std::byte length[4];
      put_number<4>(length, text.size());
      payload.append(reinterpret_cast<const char*>(length), sizeof length);
      payload += text;
    };
    for (const std::string& address : addresses) put_text(address);
    for (const auto& [name, value] : properties) {
      put_text(name);
      put_text(value);
    }
    if (payload.size() > longest_payload)
      throw ConfigurationError("the list of workers and properties is longer than 1 MiB");

    std::array<std::byte, prefix_bytes> prefix{};
    std::memcpy(prefix.data(), magic.data(), magic.size());
    put_number<4>(&prefix[8], version);
    put_number<4>(&prefix[12], payload.size());
    put_number<2>(&prefix[16], static_cast<std::uint16_t>(channel));
    put_number<2>(&prefix[18], lane);
    put_number<4>(&prefix[20], static_cast<std::uint32_t>(from));
    put_number<4>(&prefix[24], static_cast<std::uint32_t>(to));
    put_number<4>(&prefix[28], addresses.size());
    put_number<8>(&prefix[32], incarnation);
    return std::string(reinterpret_cast<const char*>(prefix.data()), prefix.size()) + payload;
  }

  /// How long a payload this worker reads: enough for a cluster of another size, so that the
  /// difference can be named, and little enough that hundreds of strangers take little memory.
  [[nodiscard]] std::size_t longest_to_read() const noexcept {
    std::size_t own = 4 + nonce_bytes;
    for (const std::string& address : addresses) own += 4 + address.size();
    for (const auto& [name, value] : properties) own += 8 + name.size() + value.size();
    return std::clamp(4 * own, std::size_t{16384}, longest_payload);
  }

  /// Whether `bytes` may be the beginning of a hello; as soon as it cannot, the sender is a
  /// stranger.
  [[nodiscard]] static bool may_begin(std::string_view bytes,
                                      std::size_t longest = longest_payload) noexcept {
    if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) return false;
    return bytes.size() < prefix_bytes || payload_length(bytes) <= longest;
  }

  /// The length of the whole hello, or of its prefix until that is there: no more should be read.
  [[nodiscard]] static std::size_t wanted(std::string_view bytes) noexcept {
    return bytes.size() < prefix_bytes ? prefix_bytes : prefix_bytes + payload_length(bytes);
  }

  /// Reads a hello of wanted() bytes. Returns false when it is malformed. From a hello of another
  /// version only the prefix is read, and its ranks may be any numbers.
  [[nodiscard, gnu::cold]] static bool decode(std::string_view bytes, Hello& hello) {
    if (bytes.size() < prefix_bytes || !may_begin(bytes) || bytes.size() != wanted(bytes))
      return false;
    const auto number = [&](std::size_t offset) {
      return static_cast<std::uint32_t>(
          get_number<4>(reinterpret_cast<const std::byte*>(bytes.data()) + offset));
    };
    hello.version = number(8);
    const std::uint32_t channel = number(16) & 0xFFFF, lane = number(16) >> 16, from = number(20),
                        to = number(24), world = number(28);
    hello.incarnation = get_number<8>(reinterpret_cast<const std::byte*>(bytes.data()) + 32);
    hello.from = static_cast<int>(from);
    hello.to = static_cast<int>(to);
    if (hello.version != this_version) return true;
    constexpr std::uint32_t most = std::numeric_limits<std::int32_t>::max();
    const std::uint32_t places = world == 0 ? most : std::min(world, most);
    if (channel > static_cast<std::uint32_t>(Channel::talk) || from >= places || to >= places)
      return false;
    constexpr std::size_t texts_begin = prefix_bytes + 4 + nonce_bytes;
    if (bytes.size() < texts_begin) return false;
    const std::uint32_t authentication = number(prefix_bytes);
    if (authentication > static_cast<std::uint32_t>(Authentication::at_work)) return false;
    hello.channel = static_cast<Channel>(channel);
    hello.lane = static_cast<std::uint16_t>(lane);
    hello.authentication = static_cast<Authentication>(authentication);
    hello.nonce = bytes.substr(prefix_bytes + 4, nonce_bytes);

    std::vector<std::string> texts;
    for (std::string_view rest = bytes.substr(texts_begin); !rest.empty();) {
      if (rest.size() < 4) return false;
      const auto length = get_number<4>(reinterpret_cast<const std::byte*>(rest.data()));
      if (length > rest.size() - 4) return false;
      texts.emplace_back(rest.substr(4, length));
      rest.remove_prefix(4 + length);
    }
    if (texts.size() < world || (texts.size() - world) % 2 != 0) return false;
    const auto properties_begin = texts.begin() + static_cast<std::ptrdiff_t>(world);
    hello.addresses.assign(texts.begin(), properties_begin);
    hello.properties.clear();
    for (auto text = properties_begin; text != texts.end(); text += 2)
      hello.properties.emplace_back(text[0], text[1]);
    return true;
  }

 private:
  static std::size_t payload_length(std::string_view bytes) noexcept {
    return get_number<4>(reinterpret_cast<const std::byte*>(bytes.data()) + 12);
  }
};

/// Why a caller belongs to another cluster, without saying anything about this one: "world size",
/// or "address of worker 2". Empty when the caller has the same list of addresses, which shows that
/// it knows the cluster.
[[nodiscard, gnu::cold]] inline std::string other_cluster(const Hello& mine, const Hello& theirs) {
  if (theirs.addresses.size() != mine.addresses.size()) return "world size";
  for (std::size_t i = 0; i < mine.addresses.size(); ++i)
    if (theirs.addresses[i] != mine.addresses[i]) return concat({"address of worker ", i});
  return {};
}

/// Why two workers do not fit, as the end of a sentence about the peer: "has world size 3, this
/// worker has 2". Empty when they fit. Quotes only the beginning of the peer's texts.
[[nodiscard, gnu::cold]] inline std::string difference(const Hello& mine, const Hello& theirs) {
  if (theirs.version != mine.version)
    return has_other("protocol version", theirs.version, mine.version);
  if (theirs.authentication != mine.authentication)
    return theirs.authentication == Hello::Authentication::none ? no_secret : secret_missing;
  if (theirs.addresses.size() != mine.addresses.size())
    return has_other("world size", theirs.addresses.size(), mine.addresses.size());
  for (std::size_t i = 0; i < mine.addresses.size(); ++i)
    if (theirs.addresses[i] != mine.addresses[i])
      return has_other(concat({"another cluster: worker ", i}), theirs.addresses[i],
                       mine.addresses[i]);
  if (theirs.to != mine.from && !mine.is_talk()) return takes_this_for(theirs.to, mine.from);
  if (theirs.from == mine.from && !mine.is_talk()) return has_this_place(theirs.from);
  for (const auto& [name, our] : mine.properties) {
    std::string their = "none";
    for (const auto& [their_name, value] : theirs.properties)
      if (their_name == name) their = value;
    if (their != our) return has_other(name, their, our);
  }
  for (const auto& [name, their] : theirs.properties) {
    bool known = false;
    for (const auto& property : mine.properties) known = known || property.first == name;
    if (!known) return has_other(name, their, "none");
  }
  if (mine.channel == Hello::Channel::control && theirs.lane != mine.lane)
    return has_other("CommunicationOptions::connections", theirs.lane + 1, mine.lane + 1);
  return {};
}

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

  /// Whether anything has come.
  [[nodiscard]] bool has_heard() const noexcept { return heard_; }
  [[nodiscard]] std::string_view out() const noexcept { return out_; }
  void sent(std::size_t bytes) { out_.erase(0, bytes); }

  /// How many bytes may be read next: none of those that follow the handshake.
  [[nodiscard]] std::size_t wanted() const noexcept {
    return (awaits_proof_ ? proof_bytes : Hello::wanted(in_)) - in_.size();
  }
  /// Takes up to wanted() bytes.
  [[gnu::cold]] void take(std::string_view bytes) {
    in_ += bytes;
    heard_ = true;
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
      problem_ = talks_ ? is_fixed : is_elastic;
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
    problem_ = comes_too_late;
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
      problem_ = has_not_missed_its_worker;
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
    if (demands) return refuse(secret_.is_set() ? has_other_secret("worker") : secret_missing);
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
      return refuse(has_other_secret("worker"));
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
    return has_another(what);
  }

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
  bool heard_ = false;
  bool at_work_ = false;
  bool awaits_proof_ = false;
  bool proved_ = false;  // the caller: it has sent its proof
  bool authenticated_ = false;
};

}}}  // namespace lockstep::detail
