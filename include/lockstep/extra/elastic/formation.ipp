#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/elastic/formation.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// --- what is said --------------------------------------------------------------------------------

LOCKSTEP_INLINE FormationMessage Formation::claim() const {
  return {.kind = Kind::claim,
          .slot = place_.slot,
          .slots = place_.slots,
          .min_workers = place_.min_workers,
          .version = version_,
          .address = address_,
          .build = place_.build,
          .memory = memory_};
}

/// One that takes part in nothing says nothing: the others do not wait for it.
LOCKSTEP_INLINE void Formation::answer_status(int slot) {
  if (phase_ == Phase::at_work)
    answer(slot, {.kind = Kind::at_work, .world = world_});
  else if (phase_ == Phase::forming || phase_ == Phase::connecting)
    answer(slot, {.kind = Kind::forming});
}

// --- events --------------------------------------------------------------------------------------

LOCKSTEP_INLINE void Formation::begin(std::string address, Time now) {
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

LOCKSTEP_INLINE void Formation::works(Time now) {
  phase_ = Phase::at_work;
  memory_ = {.worked = world_};
  // Processes that were heard and yet not taken in would be asked in vain again and again.
  for (int slot = 0; slot < place_.slots; ++slot)
    if (guests_[index(slot)] && had_called_[index(slot)] != 0 && !world_.has(slot))
      muted_[index(slot)] = now + std::max(place_.wait, Milliseconds(10'000));
}

LOCKSTEP_INLINE bool Formation::has_newcomer(Time now) const {
  if (phase_ != Phase::at_work) return false;
  for (int slot = 0; slot < place_.slots; ++slot)
    if (!world_.has(slot) && is_guest(slot, now) && now >= muted_[index(slot)]) return true;
  return false;
}

LOCKSTEP_INLINE void Formation::hear_guest(int slot, const FormationMessage& message, Time now) {
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

LOCKSTEP_INLINE void Formation::hear_called(int slot, const FormationMessage& message, Time now) {
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
      // Where a later world is at work without this process, it was left out; where one is in which
      // a member of its last world is, that one is over, whatever the numbers.
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

LOCKSTEP_INLINE void Formation::advance(Time now) {
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

// --- a guest -------------------------------------------------------------------------------------

LOCKSTEP_INLINE void Formation::take_proposal(int host, const FormationMessage& message, Time now) {
  if (accepted_ && accepted_->host == host) leave_accepted(true);  // the host has only one
  if (accepted_ || proposal_ || message.version != version_ || !message.world.has(place_.slot) ||
      message.world.slots.back() >= place_.slots || message.world.epoch <= memory_.last_epoch())
    return say(host, {.kind = Kind::refuse, .world = message.world});
  note_guests();
  accepted_ = Accepted{host, message.world, message.addresses, now + Milliseconds(5000)};
  memory_.agreed.push_back(message.world);
  ++version_;
  say(host, {.kind = Kind::accept, .world = message.world});
}

/// Without the host's word that it has withdrawn its proposal, others may have been told that all
/// have accepted it.
LOCKSTEP_INLINE void Formation::leave_accepted(bool was_withdrawn) {
  const World world = std::move(accepted_->world);
  accepted_.reset();
  if (was_withdrawn) forget(world);
  claim_anew();
}

// --- the host ------------------------------------------------------------------------------------

/// Whether a lower slot is there, which is the host or knows of one. (One that has called, but
/// cannot be called, counts for a moment; one that does not leave the world that this process has
/// left, for as long as one that is lost: it may hang.)
LOCKSTEP_INLINE bool Formation::follows(Time now) const {
  const auto counts = [&](const Called& called) {
    return called.is_open &&
           (!called.at_work || !memory_.knows(*called.at_work) || now - begun_ < place_.wait);
  };
  for (int slot = 0; slot < place_.slot; ++slot)
    if (counts(called_[index(slot)]) || (is_guest(slot, now) && now - begun_ < Milliseconds(2000)))
      return true;
  return false;
}

LOCKSTEP_INLINE std::vector<Participant> Formation::present(Time now) const {
  std::vector<Participant> all{{place_.slot, memory_}};
  for (int slot = place_.slot + 1; slot < place_.slots; ++slot)
    if (is_guest(slot, now)) all.push_back({slot, guests_[index(slot)]->claim.memory});
  return all;
}

LOCKSTEP_INLINE bool Formation::may_propose(const std::vector<Participant>& present, Time now) {
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
      is_complete &=
          std::ranges::any_of(present, [&](const Participant& each) { return each.slot == slot; });
  }
  if (!is_complete)
    complete_since_.reset();
  else if (!complete_since_)
    complete_since_ = now;
  return (complete_since_ && now - *complete_since_ >= grace) ||
         now - (memory_.is_newcomer() ? *survivors_since_ : begun_) >= place_.wait;
}

LOCKSTEP_INLINE void Formation::consider(Time now) {
  if (phase_ != Phase::forming) return;
  if (proposal_) {
    if (proposal_->awaited.empty()) commit();
    return;
  }
  if (accepted_ || follows(now) || now < next_proposal_) return;
  const auto all = present(now);
  if (may_propose(all, now)) propose(all, now);
}

LOCKSTEP_INLINE void Formation::propose(const std::vector<Participant>& present, Time now) {
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

/// Not all have accepted: the world cannot come to work, and need not be remembered.
LOCKSTEP_INLINE void Formation::withdraw(Time now) {
  for (const int slot : proposal_->world.slots)
    if (slot != place_.slot) answer(slot, {.kind = Kind::withdraw, .world = proposal_->world});
  forget(proposal_->world);
  if (withdrawn_.size() == 64) withdrawn_.erase(withdrawn_.begin());
  withdrawn_.push_back(std::move(proposal_->world));
  proposal_.reset();
  next_proposal_ = now + Milliseconds(100 + 50 * place_.slot);  // two hosts take turns
  claim_anew();
}

LOCKSTEP_INLINE void Formation::commit() {
  for (const int slot : proposal_->world.slots)
    if (slot != place_.slot) answer(slot, {.kind = Kind::commit, .world = proposal_->world});
  world_ = std::move(proposal_->world);
  addresses_ = std::move(proposal_->addresses);
  proposal_.reset();
  phase_ = Phase::connecting;
}

LOCKSTEP_INLINE std::string Formation::waiting(Time now) const {
  std::string here, missing;
  for (int slot = 0; slot < place_.slots; ++slot) {
    const bool is_here = slot == place_.slot || is_guest(slot, now) || called_[index(slot)].is_open;
    (is_here ? here : missing) += concat({" ", slot});
  }
  return roll_call(place_.slots, here, missing);
}

LOCKSTEP_INLINE void Formation::fail(Time now) {
  const std::vector<World> last = last_worlds(present(now));
  problem_ =
      waiting(now) + what_it_takes(place_.min_workers, last.empty() ? "" : last.back().members());
  phase_ = Phase::failed;
}

}}}  // namespace lockstep::detail
