// How processes that come and go agree on the world that works next, without sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/elastic/formation_message.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  enum class Stage {
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
  [[nodiscard]] Stage stage() const noexcept { return stage_; }
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
  Stage stage_ = Stage::idle;
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/elastic/formation.ipp"
#endif
