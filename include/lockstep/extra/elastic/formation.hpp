// How processes that come and go agree on the world that works next.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/meeting/conversation.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A process calls all others, and says which slot it has (claim), again and again. What the others
/// answer: that they are forming a world, or at work. The one of the lowest slot proposes:
///
///     guest                              host (a lower slot)
///     claim(memory, version)         ->
///                                    <-  forming, or at_work(world)
///                                    <-  propose(world, addresses, version of the claim)
///     accept(world), or refuse       ->
///                                    <-  commit(world) when all have accepted, or withdraw
///
/// As text: fields, each with a new line behind it.
struct FormationMessage {
  enum class Kind { claim, forming, at_work, propose, accept, refuse, commit, withdraw };

  Kind kind = Kind::forming;
  int slot = 0;               ///< claim: of the sender
  int slots = 0;              ///< claim: of the cluster
  int min_workers = 0;        ///< claim
  std::uint64_t version = 0;  ///< claim; propose: of the claim to which it answers
  std::string address{};      ///< claim: where the sender listens to the others of a world
  std::string build{};        ///< claim: what all must have in common, on one line
  WorldMemory memory{};       ///< claim
  World world{};              ///< of all others but forming
  std::vector<std::string> addresses{};  ///< propose: by rank

  [[nodiscard]] std::string text() const {
    std::string text = concat({names[static_cast<std::size_t>(kind)], "\n"});
    switch (kind) {
      case Kind::claim:
        text +=
            concat({slot, "\n", slots, "\n", min_workers, "\n", version, "\n", address, "\n", build,
                    "\n", memory.worked ? memory.worked->text() : std::string("none"), "\n"});
        for (const World& each : memory.agreed) text += each.text() + "\n";
        break;
      case Kind::forming:
        break;
      case Kind::propose:
        text += concat({version, "\n", world.text(), "\n"});
        for (const std::string& each : addresses) text += each + "\n";
        break;
      default:
        text += world.text() + "\n";
    }
    return text;
  }

  /// Nothing when it is none.
  [[nodiscard]] static std::optional<FormationMessage> read(std::string_view message) {
    const auto fields = fields_of(message);
    if (fields.empty()) return std::nullopt;
    FormationMessage read;
    std::size_t named = 0;
    while (named < std::size(names) && fields[0] != names[named]) ++named;
    if (named == std::size(names)) return std::nullopt;
    read.kind = static_cast<Kind>(named);
    const auto number = [&](std::size_t field, auto& value) {
      return field < fields.size() && read_number(fields[field], value) && fields[field][0] != '-';
    };
    const auto take = [&](std::size_t field) {
      const auto found = field < fields.size() ? World::read(fields[field]) : std::nullopt;
      if (found) read.world = *found;
      return found && (read.kind != Kind::claim || found->slots.back() < read.slots);
    };
    switch (read.kind) {
      case Kind::claim:
        if (fields.size() < 8 || !number(1, read.slot) || !number(2, read.slots) ||
            !number(3, read.min_workers) || !number(4, read.version) || !is_address(fields[5]))
          return std::nullopt;
        read.address = fields[5];
        read.build = fields[6];
        for (std::size_t field = 7; field < fields.size(); ++field) {
          if (field == 7 && fields[field] == "none") continue;
          if (!take(field)) return std::nullopt;
          if (field == 7)
            read.memory.worked = std::exchange(read.world, {});
          else
            read.memory.agreed.push_back(std::exchange(read.world, {}));
        }
        break;
      case Kind::forming:
        break;
      case Kind::propose:
        if (!number(1, read.version) || !take(2) || fields.size() != 3 + read.world.slots.size() ||
            !std::all_of(fields.begin() + 3, fields.end(), is_address))
          return std::nullopt;
        read.addresses.assign(fields.begin() + 3, fields.end());
        break;
      default:
        if (!take(1)) return std::nullopt;
    }
    return read;
  }

 private:
  static constexpr std::string_view names[] = {"claim",  "forming", "at work", "propose",
                                               "accept", "refuse",  "commit",  "withdraw"};
};

/// One process's part in it: takes what others say and the time, gives what to say.
///
/// Each process calls all others. Of those that hear each other, the lowest slot is the **host**,
/// and the others are its guests. When all of the last world are there, or after the wait, it
/// proposes a world of those who are, and is free to if may_follow() says so of each world that may
/// be the last one. A guest that accepts remembers the proposal, so that whatever it takes part in
/// later needs a majority of that, too; when all have accepted, the host commits, and all connect.
/// A world is at work when all of its members are connected, which takes every one of them. So a
/// member that has gone to another world is in no older one, and two worlds that both follow one
/// have a process in common that knows the first when it agrees to the second.
///
/// Newcomers do not count towards a majority. Where there are only newcomers, they found a world:
/// all slots, or, after founding_wait(), more than half and at least min_workers, provided that the
/// missing ones are too few for a world. By then, a survivor without a majority has given up.
class Formation {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  struct Place {
    int slot = 0;
    int slots = 1;  ///< of the cluster
    int min_workers = 1;
    Milliseconds wait{30'000};
    Milliseconds patience{300'000};  ///< of a newcomer, until it gives up
    std::string build{};             ///< what all must have in common

    /// A survivor gives up.
    [[nodiscard]] Milliseconds giving_up() const { return 2 * wait + Milliseconds(5000); }
    [[nodiscard]] Milliseconds founding_wait() const { return giving_up() + Milliseconds(1000); }
  };
  enum class Phase {
    idle,
    forming,
    connecting,  ///< world() is decided, and is at work once its members are connected
    at_work,
    failed,  ///< problem() says why
  };
  struct Letter {
    int to = 0;              ///< slot
    bool is_answer = false;  ///< on the connection that `to` has opened, else on this one's to it
    FormationMessage message{};
  };

  static constexpr Milliseconds silence{4000};   ///< after which a process counts as gone
  static constexpr Milliseconds interval{1000};  ///< at which each says something
  static constexpr Milliseconds grace{200};      ///< for newcomers, when all others are there

  Formation(const Place& place, std::uint64_t seed)
      : place_(place),
        random_(seed),
        guests_(static_cast<std::size_t>(place.slots)),
        called_(static_cast<std::size_t>(place.slots)),
        muted_(static_cast<std::size_t>(place.slots)),
        had_called_(static_cast<std::size_t>(place.slots)) {}

  [[nodiscard]] const Place& place() const noexcept { return place_; }
  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] const World& world() const noexcept { return world_; }
  /// Of the members, by rank, for them to connect.
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  [[nodiscard]] const WorldMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Which workers are here and which are missing, for the log.
  [[nodiscard]] std::string waiting(Time now) const;
  /// At work: whether one waits to be taken in.
  [[nodiscard]] bool has_newcomer(Time now) const;

  /// Begins to form a world: at first, after a loss, or for a newcomer. `address` is where this
  /// process listens to the other members.
  void begin(std::string address, Time now);
  /// All members of world() are connected.
  void works(Time now);

  /// This process's call to another slot has got through; the other end has said something; it is
  /// over.
  void reached(int slot, Time now) {
    called_[index(slot)] = {.is_open = true, .heard = now};
    say(slot, claim());
  }
  void hear_called(int slot, const FormationMessage& message, Time now);
  void lose_called(int slot) {
    called_[index(slot)] = {};
    if (accepted_ && accepted_->host == slot) leave_accepted(false);
  }
  /// A process that has called this one: it has said something; it is gone.
  void hear_guest(int slot, const FormationMessage& message, Time now);
  void lose_guest(int slot, Time now) {
    guests_[index(slot)].reset();
    if (proposal_ && proposal_->world.has(slot)) withdraw(now);
    consider(now);
  }

  /// To be called every 100 ms or so.
  void advance(Time now);

  [[nodiscard]] std::vector<Letter> take_letters() { return std::exchange(letters_, {}); }

 private:
  using Kind = FormationMessage::Kind;

  struct Guest {
    FormationMessage claim{};
    Time heard{};
  };
  struct Called {
    bool is_open = false;
    Time heard{};
    std::optional<World> at_work{};  // set if that is the last that it said
  };
  struct Proposal {
    World world{};
    std::vector<std::string> addresses{};
    std::vector<int> awaited{};  // slots that have not accepted yet
    Time until{};
  };
  struct Accepted {
    int host = 0;
    World world{};
    std::vector<std::string> addresses{};
    Time until{};
  };

  static std::size_t index(int slot) { return static_cast<std::size_t>(slot); }
  void answer(int slot, FormationMessage message) {
    letters_.push_back({slot, true, std::move(message)});
  }
  void say(int slot, FormationMessage message) {
    letters_.push_back({slot, false, std::move(message)});
  }
  [[nodiscard]] FormationMessage claim() const;
  void answer_status(int slot);
  /// After a change of what this process knows: a proposal to what it has claimed before is void.
  void claim_anew() {
    ++version_;
    for (int slot = 0; slot < place_.slots; ++slot)
      if (called_[index(slot)].is_open) say(slot, claim());
  }
  [[nodiscard]] bool is_guest(int slot, Time now) const {
    const auto& guest = guests_[index(slot)];
    return guest && now - guest->heard <= silence;
  }
  void note_guests() {
    for (std::size_t slot = 0; slot < guests_.size(); ++slot)
      had_called_[slot] = guests_[slot].has_value();
  }
  [[nodiscard]] bool follows(Time now) const;
  [[nodiscard]] std::vector<Participant> present(Time now) const;
  [[nodiscard]] bool may_propose(const std::vector<Participant>& present, Time now);
  void consider(Time now);
  void propose(const std::vector<Participant>& present, Time now);
  void withdraw(Time now);
  void commit();
  void take_proposal(int host, const FormationMessage& message, Time now);
  void leave_accepted(bool was_withdrawn);
  bool forget(const World& world) {
    return std::erase_if(memory_.agreed, [&](const World& each) { return each.is_same(world); }) >
           0;
  }
  void fail(Time now);

  const Place place_;
  std::mt19937_64 random_;
  Phase phase_ = Phase::idle;
  WorldMemory memory_;
  std::uint64_t version_ = 1;  // of the memory, as others know it
  std::string address_;
  std::vector<std::optional<Guest>> guests_;  // by slot
  std::vector<Called> called_;                // by slot
  std::vector<Time> muted_;                   // by slot: as newcomers, until then
  std::vector<char> had_called_;              // by slot: before the last proposal
  std::vector<World> withdrawn_;              // by this host, the last ones
  std::optional<Proposal> proposal_;
  std::optional<Accepted> accepted_;
  World world_;
  std::vector<std::string> addresses_;
  std::vector<Letter> letters_;
  std::string problem_;
  Time begun_{}, next_words_{}, next_proposal_{};
  Time awaited_{};                       // when a member of the last world was last heard in it
  std::optional<Time> complete_since_;   // all of the last world are there
  std::optional<Time> survivors_since_;  // one is there that has been in a world
};

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

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/elastic/formation.ipp"
#endif
