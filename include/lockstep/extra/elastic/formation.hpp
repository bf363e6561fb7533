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
#include "lockstep/collectives/failure_text.hpp"
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
///     guest                              proposer (a lower slot)
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
/// Each process calls all others. The lowest slot of those that hear each other is the
/// **proposer**, and the others are its guests. When all of the last world are there, or after the
/// wait, it proposes a world of those who are; may_follow() must allow this for each world that may
/// be the last one. A guest that accepts remembers the proposal, so that whatever it takes part in
/// later needs a majority of that, too; when all have accepted, the proposer commits, and all
/// connect. A world is at work when all of its members are connected, which takes every one of
/// them. So a member that has gone to another world is in no older one, and two worlds that both
/// follow one have a process in common that knows the first when it agrees to the second.
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
  /// The members' addresses, by rank, for them to connect.
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  [[nodiscard]] const WorldMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// Which workers are here and which are missing, for the log.
  [[nodiscard]] std::string waiting(Time now) const {
    std::string here, missing;
    for (int slot = 0; slot < place_.slots; ++slot) {
      const bool is_here =
          slot == place_.slot || is_guest(slot, now) || called_[index(slot)].is_open;
      (is_here ? here : missing) += concat({" ", slot});
    }
    return roll_call(place_.slots, here, missing);
  }
  /// At work: whether one waits to be taken in.
  [[nodiscard]] bool has_newcomer(Time now) const {
    if (phase_ != Phase::at_work) return false;
    for (int slot = 0; slot < place_.slots; ++slot)
      if (!world_.has(slot) && is_guest(slot, now) && now >= muted_[index(slot)]) return true;
    return false;
  }

  /// Begins to form a world: at first, after a loss, or for a newcomer. `address` is where this
  /// process listens to the other members.
  void begin(std::string address, Time now) {
    phase_ = Phase::forming;
    address_ = std::move(address);
    begun_ = next_words_ = next_proposal_ = now;
    proposal_.reset();
    accepted_.reset();
    complete_since_.reset();
    survivors_since_.reset();
    ++version_;
    advance(now);
  }
  /// All members of world() are connected.
  void works(Time now) {
    phase_ = Phase::at_work;
    memory_ = {.worked = world_};
    // Processes that were heard but not taken in would only be asked again and again.
    for (int slot = 0; slot < place_.slots; ++slot)
      if (guests_[index(slot)] && had_called_[index(slot)] != 0 && !world_.has(slot))
        muted_[index(slot)] = now + std::max(place_.wait, Milliseconds(10'000));
  }

  /// This process's call to another slot has got through; the other end has said something; it is
  /// over.
  void reached(int slot, Time now) {
    called_[index(slot)] = {.is_open = true, .heard = now};
    say(slot, claim());
  }
  void hear_called(int slot, const FormationMessage& message, Time now) {
    if (phase_ != Phase::forming) return;
    Called& called = called_[index(slot)];
    if (!called.is_open) reached(slot, now);  // it was silent for a while
    called.heard = now;
    called.at_work.reset();
    switch (message.kind) {
      case Kind::at_work:
        called.at_work = message.world;
        // One that has not left their world may be busy, with a save for example.
        if (memory_.knows(message.world) && now - begun_ < place_.patience) awaited_ = now;
        // Where a later world is at work without this process, it was left out; where one is that
        // has a member of its last world, that one is over, whatever the numbers.
        if (!memory_.is_newcomer() && !accepted_ && !proposal_ && !memory_.knows(message.world) &&
            (message.world.epoch >= memory_.last_epoch() || memory_.has(slot))) {
          memory_ = {};
          begun_ = now;
          claim_anew();
        }
        break;
      case Kind::propose:
        take_proposal(slot, message, now);
        break;
      case Kind::withdraw:
        if (accepted_ && accepted_->world.is_same(message.world))
          leave_accepted(true);
        else if (forget(message.world))
          claim_anew();
        break;
      case Kind::commit:
        if (!accepted_ || !accepted_->world.is_same(message.world)) return;
        world_ = std::move(accepted_->world);
        addresses_ = std::move(accepted_->addresses);
        accepted_.reset();
        phase_ = Phase::connecting;
        break;
      default:
        break;
    }
  }
  void lose_called(int slot) {
    called_[index(slot)] = {};
    if (accepted_ && accepted_->proposer == slot) leave_accepted(false);
  }
  /// A process that has called this one: it has said something; it is gone.
  void hear_guest(int slot, const FormationMessage& message, Time now) {
    switch (message.kind) {
      case Kind::claim: {
        if (message.slot != slot || slot == place_.slot || message.slots != place_.slots ||
            message.min_workers != place_.min_workers || message.build != place_.build)
          return;
        auto& guest = guests_[index(slot)];
        const bool is_new = !guest || guest->claim.version != message.version;
        guest = Guest{message, now};
        if (is_new) answer_status(slot);
        for (const World& each : message.memory.agreed)  // the connection may have lost the word
          if (std::ranges::any_of(withdrawn_, [&](const World& w) { return w.is_same(each); }))
            answer(slot, {.kind = Kind::withdraw, .world = each});
        break;
      }
      case Kind::accept:
        if (!proposal_ || !proposal_->world.is_same(message.world)) return;
        std::erase(proposal_->awaited, slot);
        break;
      case Kind::refuse:
        if (proposal_ && proposal_->world.is_same(message.world)) withdraw(now);
        break;
      default:
        return;
    }
    consider(now);
  }
  void lose_guest(int slot, Time now) {
    guests_[index(slot)].reset();
    if (proposal_ && proposal_->world.has(slot)) withdraw(now);
    consider(now);
  }

  /// To be called every 100 ms or so.
  void advance(Time now) {
    for (int slot = 0; slot < place_.slots; ++slot) {
      const auto& guest = guests_[index(slot)];
      if (guest && now - guest->heard > silence) lose_guest(slot, now);
      if (called_[index(slot)].is_open && now - called_[index(slot)].heard > silence)
        lose_called(slot);
    }
    if (now >= next_words_) {
      next_words_ = now + interval;
      for (int slot = 0; slot < place_.slots; ++slot) {
        if (phase_ == Phase::forming && called_[index(slot)].is_open) say(slot, claim());
        if (guests_[index(slot)]) answer_status(slot);
      }
    }
    if (accepted_ && now >= accepted_->until) leave_accepted(false);
    if (proposal_ && now >= proposal_->until) withdraw(now);
    consider(now);
    if (phase_ != Phase::forming || accepted_ || proposal_) return;
    const Time since = memory_.is_newcomer() ? begun_ : std::max(begun_, awaited_);
    if (now - since >= (memory_.is_newcomer() ? place_.patience : place_.giving_up())) fail(now);
  }

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
    int proposer = 0;
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
  [[nodiscard]] FormationMessage claim() const {
    return {.kind = Kind::claim,
            .slot = place_.slot,
            .slots = place_.slots,
            .min_workers = place_.min_workers,
            .version = version_,
            .address = address_,
            .build = place_.build,
            .memory = memory_};
  }
  // One that takes part in nothing says nothing: the others do not wait for it.
  void answer_status(int slot) {
    if (phase_ == Phase::at_work)
      answer(slot, {.kind = Kind::at_work, .world = world_});
    else if (phase_ == Phase::forming || phase_ == Phase::connecting)
      answer(slot, {.kind = Kind::forming});
  }
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
  // Whether a lower slot is there, which is the proposer or knows of one. (One that has called, but
  // cannot be called, counts for a moment; one that does not leave the world that this process
  // has left, for as long as one that is lost: it may hang.)
  [[nodiscard]] bool follows(Time now) const {
    const auto counts = [&](const Called& called) {
      return called.is_open &&
             (!called.at_work || !memory_.knows(*called.at_work) || now - begun_ < place_.wait);
    };
    for (int slot = 0; slot < place_.slot; ++slot)
      if (counts(called_[index(slot)]) ||
          (is_guest(slot, now) && now - begun_ < Milliseconds(2000)))
        return true;
    return false;
  }
  [[nodiscard]] std::vector<Participant> present(Time now) const {
    std::vector<Participant> all{{place_.slot, memory_}};
    for (int slot = place_.slot + 1; slot < place_.slots; ++slot)
      if (is_guest(slot, now)) all.push_back({slot, guests_[index(slot)]->claim.memory});
    return all;
  }
  [[nodiscard]] bool may_propose(const std::vector<Participant>& present, Time now) {
    const auto all = static_cast<std::size_t>(place_.slots);
    const auto least = static_cast<std::size_t>(place_.min_workers);
    const std::vector<World> last = last_worlds(present);
    if (last.empty())
      survivors_since_.reset();
    else if (!survivors_since_)
      survivors_since_ = now;
    if (present.size() == all) return true;  // no process is left for another world
    if (present.size() < least) return false;
    if (last.empty())
      return now - begun_ >= place_.founding_wait() && 2 * present.size() > all &&
             all - present.size() < least;
    bool is_complete = true;
    for (const World& world : last) {
      if (!may_follow(world, present)) return false;
      for (const int slot : world.slots)
        is_complete &= std::ranges::any_of(
            present, [&](const Participant& each) { return each.slot == slot; });
    }
    if (!is_complete)
      complete_since_.reset();
    else if (!complete_since_)
      complete_since_ = now;
    return (complete_since_ && now - *complete_since_ >= grace) ||
           now - (memory_.is_newcomer() ? *survivors_since_ : begun_) >= place_.wait;
  }
  void consider(Time now) {
    if (phase_ != Phase::forming) return;
    if (proposal_) {
      if (proposal_->awaited.empty()) commit();
      return;
    }
    if (accepted_ || follows(now) || now < next_proposal_) return;
    const auto all = present(now);
    if (may_propose(all, now)) propose(all, now);
  }
  void propose(const std::vector<Participant>& present, Time now) {
    Proposal proposal{.world = {.epoch = 1, .id = random_()}, .until = now + Milliseconds(3000)};
    for (const Participant& each : present) {
      proposal.world.epoch = std::max(proposal.world.epoch, each.memory.last_epoch() + 1);
      proposal.world.slots.push_back(each.slot);
      const bool is_this = each.slot == place_.slot;
      proposal.addresses.push_back(is_this ? address_ : guests_[index(each.slot)]->claim.address);
      if (!is_this) proposal.awaited.push_back(each.slot);
    }
    note_guests();
    memory_.agreed.push_back(proposal.world);
    ++version_;
    for (const int slot : proposal.awaited)
      answer(slot, {.kind = Kind::propose,
                    .version = guests_[index(slot)]->claim.version,
                    .world = proposal.world,
                    .addresses = proposal.addresses});
    proposal_ = std::move(proposal);
    if (proposal_->awaited.empty()) commit();
  }
  // Not all have accepted: the world cannot come to work, and need not be remembered.
  void withdraw(Time now) {
    for (const int slot : proposal_->world.slots)
      if (slot != place_.slot) answer(slot, {.kind = Kind::withdraw, .world = proposal_->world});
    forget(proposal_->world);
    if (withdrawn_.size() == 64) withdrawn_.erase(withdrawn_.begin());
    withdrawn_.push_back(std::move(proposal_->world));
    proposal_.reset();
    next_proposal_ = now + Milliseconds(100 + 50 * place_.slot);  // two hosts take turns
    claim_anew();
  }
  void commit() {
    for (const int slot : proposal_->world.slots)
      if (slot != place_.slot) answer(slot, {.kind = Kind::commit, .world = proposal_->world});
    world_ = std::move(proposal_->world);
    addresses_ = std::move(proposal_->addresses);
    proposal_.reset();
    phase_ = Phase::connecting;
  }
  void take_proposal(int proposer, const FormationMessage& message, Time now) {
    if (accepted_ && accepted_->proposer == proposer) leave_accepted(true);  // it has only one
    if (accepted_ || proposal_ || message.version != version_ || !message.world.has(place_.slot) ||
        message.world.slots.back() >= place_.slots || message.world.epoch <= memory_.last_epoch())
      return say(proposer, {.kind = Kind::refuse, .world = message.world});
    note_guests();
    accepted_ = Accepted{proposer, message.world, message.addresses, now + Milliseconds(5000)};
    memory_.agreed.push_back(message.world);
    ++version_;
    say(proposer, {.kind = Kind::accept, .world = message.world});
  }
  // Without the proposer's word that it has withdrawn its proposal, others may have been told that
  // all have accepted it.
  void leave_accepted(bool was_withdrawn) {
    const World world = std::move(accepted_->world);
    accepted_.reset();
    if (was_withdrawn) forget(world);
    claim_anew();
  }
  bool forget(const World& world) {
    return std::erase_if(memory_.agreed, [&](const World& each) { return each.is_same(world); }) >
           0;
  }
  void fail(Time now) {
    const std::vector<World> last = last_worlds(present(now));
    problem_ =
        waiting(now) + what_it_takes(place_.min_workers, last.empty() ? "" : last.back().members());
    phase_ = Phase::failed;
  }

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
  std::vector<World> withdrawn_;              // by this proposer, the last ones
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
