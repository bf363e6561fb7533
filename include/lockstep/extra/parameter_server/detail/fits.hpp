// What workers ask a parameter server for: to begin a fit, to make its steps, to end it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/parameter_server/backup.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/detail/members.hpp"
#include "lockstep/extra/parameter_server/options.hpp"
#include "lockstep/extra/parameter_server/shard_keeper.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::uint64_t ps_longest_place = std::uint64_t{1} << 16;

/// The fits of the workers, one after the other. Each worker's thread calls `answer` with its
/// messages.
///
/// Rounds (max_staleness 0) end when every worker that lives has sent its gradients; the first one
/// of a fit needs all workers. Without rounds, gradients are applied as they come.
class PsFits {
 public:
  PsFits(ShardKeeper& keeper, PsMembers& members, const PsPlace& place,
         const ParameterServerOptions& options)
      : keeper_(keeper),
        members_(members),
        place_(place),
        options_(options),
        sum_of_status_(keeper.status_size()) {}

  /// Goes on from a backup, if there is one.
  void restore(PsBackup& backup) {
    has_state_ = is_restored_ = backup.restore(keeper_, progress_);
    begins_anew_ = progress_.has_ended;
    if (begins_anew_)
      forget();
    else if (has_state_)
      place_.say("goes on from its backup");
    progress_.places.resize(members_.list.size());
  }
  /// Answers a message of these kinds; false for one of another kind.
  [[nodiscard]] bool answer(PsConnection& connection, PsMember& member,
                            const PsConnection::Head& head) {
    const auto answers = head.kind == PsMessage::begin    ? &PsFits::begin
                         : head.kind == PsMessage::put    ? &PsFits::put
                         : head.kind == PsMessage::pull   ? &PsFits::pull
                         : head.kind == PsMessage::step   ? &PsFits::step
                         : head.kind == PsMessage::finish ? &PsFits::finish
                         : head.kind == PsMessage::settle ? &PsFits::settle
                         : head.kind == PsMessage::cannot ? &PsFits::cannot_begin
                                                          : nullptr;
    if (answers != nullptr) (this->*answers)(connection, member, head);
    return answers != nullptr;
  }

  // Called under the lock of the members.

  /// Once enough time has passed, a round ends without those that have not come.
  void end_round_if_complete() {
    std::vector<PsMember*> senders;
    for (PsMember& member : members_.list) {
      if (member.is_training && !member.has_sent) return;
      if (member.has_sent) senders.push_back(&member);
    }
    if (senders.empty() || !members_.all_have_come()) return;
    const int count = static_cast<int>(senders.size());
    const auto sender = [&](int i) -> PsMember& { return *senders[static_cast<std::size_t>(i)]; };
    std::span<std::byte> sum(sender(0).gradients.data(), keeper_.parameters().size());
    sum_of_status_ = sender(0).status;
    if (count > 1) {
      if (sum_.size() < sum.size()) sum_ = Buffer(sum.size());
      sum = {sum_.data(), sum.size()};
      combine_range({keeper_.type(), ReduceOp::sum}, sum.data(), keeper_.begin(),
                    sum.size() / size_of(keeper_.type()), count,
                    [&](int i) -> const std::byte* { return sender(i).gradients.data(); });
      combine_ranks({DataType::float64, ReduceOp::sum}, sum_of_status_.data(), 0, count,
                    sum_of_status_.size(), [&](int i) {
                      return reinterpret_cast<const std::byte*>(sender(i).status.data());
                    });
    }
    keeper_.apply(
        {.values = sum,
         .status = sum_of_status_,
         .workers = count,
         .in_round = true,
         .learning_rate = members_.rank_of(sender(0)) == 0 ? sender(0).learning_rate : std::nan(""),
         .stop_on_non_finite = sender(0).stop_on_non_finite});
    for (PsMember* const each : senders) keep_step(*each, sum_of_status_);
    // One that comes back begins where the others are.
    if (!sender(0).place.empty()) progress_.places.assign(members_.list.size(), sender(0).place);
    ++updates_;
    members_.last_progress = Clock::now();
    members_.changed.notify_all();
  }
  /// Copies the state if a backup is due, and returns whether one is. The last one is due if there
  /// was any update.
  [[nodiscard]] bool copy_for(PsBackup& backup, bool is_last = false) {
    const bool is_due = backup_is_due_ || updates_ >= (is_last ? 1 : options_.backup_freq);
    if (!backup.is_on() || !has_state_ || !is_due) return false;
    backup.copy(keeper_, progress_);
    updates_ = 0;
    backup_is_due_ = false;
    return true;
  }
  /// The next backup says that the training has ended.
  void end() noexcept { progress_.has_ended = backup_is_due_ = true; }
  /// Why the chief cannot begin the next fit; empty: it may come.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  /// Whether the backup says so, of a training that was there before.
  [[nodiscard]] bool begins_anew() const noexcept { return begins_anew_; }

 private:
  using Clock = PsMembers::Clock;
  using Lock = PsMembers::Lock;

  void begin(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    const std::string text = connection.receive_text(head, ps_longest_signature);
    const PsBeginning beginning = parse_beginning(text);
    const std::uint64_t fit = beginning.fit;
    if (const auto difference = keeper_.difference(beginning.signature))
      refuse_worker(connection, *difference, ExitCode::usage);
    Lock lock(members_.mutex);
    const bool is_chief = members_.rank_of(member) == 0;
    // It is in no other fit: neither in one that an exception has ended, nor in the one before.
    member.is_training = member.has_sent = member.pulls = false;
    if (fit > progress_.fit) member.has_joined = member.has_finished = true;
    end_round_if_complete();
    members_.changed.notify_all();
    if (is_chief) {
      failure_.clear();
      if (is_restored_ && head.number != 0) forget();
      is_restored_ = false;
    }
    if (is_chief && fit > progress_.fit) {
      settle_former();
      members_.wait(lock, connection, member, [&] {
        return std::ranges::none_of(members_.list,
                                    [](const PsMember& m) { return m.is_training || m.pulls; });
      });
      for (PsMember& each : members_.list) each.has_joined = each.has_finished = false;
      progress_ = {.fit = fit};
      settled_ = 0;
      progress_.places.resize(members_.list.size());
      given_.clear();
      has_state_ = false;
      members_.fit_began = Clock::now();
    }
    auto verdict = PsVerdict::join;
    if (is_chief && fit == progress_.fit && !has_state_) {
      verdict = begins_anew_ ? PsVerdict::give_anew : PsVerdict::give_state;
    } else {
      bool has_failed = false;
      members_.wait(lock, connection, member, [&] {
        has_failed = !failure_.empty() && !(progress_.fit >= fit && has_state_);
        if (has_failed) return true;
        const auto has_sent = [](const PsMember& each) { return each.has_sent; };
        if (progress_.fit > fit) return has_state_;
        // A round that is under way is one of those that have come before.
        return progress_.fit == fit && has_state_ &&
               (!members_.all_have_come() || std::ranges::none_of(members_.list, has_sent));
      });
      if (has_failed) {
        const std::string why = failure_;
        lock.unlock();
        refuse_worker(connection, why, ExitCode::usage);
      }
      if (progress_.fit > fit) verdict = PsVerdict::is_over;
    }
    if (verdict != PsVerdict::is_over) {
      if (given_.empty()) given_ = beginning.given;
      if (const auto difference = keeper_.fit_difference(beginning.given, given_)) {
        lock.unlock();
        refuse_worker(connection, *difference, ExitCode::usage);
      }
    }
    if (verdict == PsVerdict::join) members_.join(member);
    const auto& own = progress_.places[static_cast<std::size_t>(members_.rank_of(member))];
    const std::vector<std::byte> place = own.empty() ? progress_.begin : own;
    lock.unlock();
    connection.send(PsMessage::reply, {pack_numbers(static_cast<std::uint64_t>(verdict)), place});
  }
  void cannot_begin(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    const std::string why = connection.receive_text(head, ps_longest_failure);
    {
      const Lock lock(members_.mutex);
      if (members_.rank_of(member) != 0)
        throw ConnectionLost(breaks_protocol("it says what the chief alone can say"));
      failure_ = concat({"the chief cannot begin the fit: ", printable(why, 2000)});
      members_.changed.notify_all();
    }
    connection.send(PsMessage::reply, "");
  }
  void put(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    const std::size_t bytes = keeper_.state_bytes();
    if (head.size < bytes || head.size - bytes > ps_longest_place)
      PsConnection::expect(head, bytes);
    std::vector<std::byte> place(head.size - bytes), state(bytes);
    connection.receive(place);
    connection.receive(state);
    {
      Lock lock(members_.mutex);
      if (members_.rank_of(member) != 0)
        throw ConnectionLost(breaks_protocol("it gives a state that was not asked for"));
      if (progress_.fit == 0 || head.number != progress_.fit) refuse_restarted(lock, connection);
      if (!has_state_) {  // else the worker has not heard that it was taken
        keeper_.load(state);
        progress_.begin = std::move(place);
        has_state_ = backup_is_due_ = true;
        begins_anew_ = false;
      }
      members_.join(member);
    }
    connection.send(PsMessage::reply, "");
  }
  void pull(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    PsConnection::expect(head, 0);
    std::vector<std::byte> state(keeper_.state_bytes());
    {
      Lock lock(members_.mutex);
      need_state(lock, connection, member);
      keeper_.save(state);
    }
    connection.send(PsMessage::reply, {state});
  }
  void step(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    receive_step(connection, member, head);
    {
      Lock lock(members_.mutex);
      need_state(lock, connection, member);
      // Also when its connection broke after the step, and it asks for the reply alone.
      members_.join(member);
      if (member.sent > member.last_step) {
        if (options_.in_rounds()) {
          member.has_sent = true;
          end_round_if_complete();
          members_.wait(lock, connection, member, [&] { return !member.has_sent; });
        } else {
          apply_alone(member);
        }
      }
      if (options_.max_staleness && !options_.in_rounds())
        members_.wait(lock, connection, member,
                      [&] { return member.clock - members_.slowest() <= *options_.max_staleness; });
      const auto values = keeper_.parameters();
      member.reply.assign(values.begin(), values.end());
    }
    connection.send(PsMessage::reply,
                    {std::as_bytes(std::span(std::as_const(member.last_status))), member.reply},
                    head.number);
  }
  void finish(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    PsConnection::expect(head, 0);
    Lock lock(members_.mutex);
    if (head.number >=
        progress_.fit) {  // else it is asked again, and the others are in a later fit
      need_state(lock, connection, member);
      member.is_training = member.has_sent = false;
      member.has_joined = member.has_finished = true;  // this server may have been started since
      // The next fit begins when it has got what this one has made.
      member.pulls = true;
      end_round_if_complete();
      members_.changed.notify_all();
      members_.wait(lock, connection, member, [&] {
        return members_.all_have_come() &&
               std::ranges::none_of(members_.list,
                                    [](const PsMember& each) { return each.is_training; });
      });
    }
    lock.unlock();
    connection.send(PsMessage::reply, "");
  }
  void settle(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    const std::size_t bytes = keeper_.state_bytes();
    std::array<std::byte, 8> number{};
    if (head.size != number.size()) PsConnection::expect(head, number.size() + bytes);
    std::vector<std::byte> state(head.size - number.size());
    connection.receive(number);
    connection.receive(state);
    std::uint64_t wants = 0;
    unpack_numbers(number, wants);
    {
      Lock lock(members_.mutex);
      const PsMember& chief = members_.list.front();
      const auto is_present = [&] { return head.number == progress_.fit && has_state_; };
      if (&member == &chief) {
        if (is_present() && settled_ != progress_.fit) {  // else it is asked again
          settle_former();
          has_settled_anew_ = !state.empty();
          if (has_settled_anew_) keeper_.load(state);
          backup_is_due_ |= has_settled_anew_;
        }
        state.clear();
      } else {
        auto seen = Clock::now();
        members_.wait(lock, connection, member, [&] {
          if (chief.connection != nullptr) seen = Clock::now();
          return !is_present() || settled_ == progress_.fit || chief.has_left ||
                 Clock::now() - seen > options_.timeout;
        });
        const bool is_anew = settled_ == progress_.fit && has_settled_anew_;
        state.resize(is_present() && (wants != 0 || is_anew) ? bytes : 0);
        if (!state.empty()) keeper_.save(state);
      }
      member.pulls = false;
      members_.changed.notify_all();
    }
    connection.send(PsMessage::reply, {state});
  }

  void forget() {
    place_.say("begins anew: the training of its backup has ended");
    has_state_ = is_restored_ = false;
    progress_ = {};
  }
  /// Waits until the chief has given a state; refuses the worker when none is to be expected.
  void need_state(Lock& lock, PsConnection& connection, PsMember& member) {
    members_.wait(lock, connection, member, [&] {
      return has_state_ || progress_.fit == 0 ||
             Clock::now() - members_.fit_began > options_.startup_timeout;
    });
    if (!has_state_) refuse_restarted(lock, connection);
  }
  [[noreturn]] void refuse_restarted(Lock& lock, PsConnection& connection) const {
    lock.unlock();
    const std::string& folder = options_.backup_dir;
    refuse_worker(
        connection,
        concat({"this server was started again, without what it held before, since ",
                folder.empty()
                    ? "it has no backup (ParameterServerOptions::backup_dir): "
                    : concat({"there was no '", ps_backup_path(folder, place_.index),
                              "': bring it back, or remove those of the other servers, and "}),
                "start all processes again"}),
        ExitCode::lost_peer);
  }
  /// The chief has come to the end of the fit, or beyond it.
  void settle_former() noexcept {
    if (settled_ == progress_.fit) return;
    settled_ = progress_.fit;
    has_settled_anew_ = false;
    members_.changed.notify_all();
  }
  void receive_step(PsConnection& connection, PsMember& member, const PsConnection::Head& head) {
    const std::size_t gradients = keeper_.parameters().size();
    member.status.resize(keeper_.status_size());
    const std::span<std::byte> status = std::as_writable_bytes(std::span(member.status));
    std::array<std::byte, 24> numbers{};
    const std::size_t least = numbers.size() + status.size() + gradients;
    if (head.size < least || head.size - least > ps_longest_place)
      PsConnection::expect(head, least);
    connection.receive(numbers);
    std::uint64_t stop_on_non_finite = 0, place = 0;
    unpack_numbers(numbers, member.learning_rate, stop_on_non_finite, place);
    member.stop_on_non_finite = stop_on_non_finite != 0;
    if (place != head.size - least)
      throw ConnectionLost(breaks_protocol("it sends a step of a wrong size"));
    member.place.resize(place);
    connection.receive(member.place);
    connection.receive(status);
    if (member.gradients.size() < gradients) member.gradients = Buffer(gradients);
    connection.receive({member.gradients.data(), gradients});
    member.sent = head.number;
  }
  void apply_alone(PsMember& member) {
    keeper_.apply(
        {.values = {member.gradients.data(), keeper_.parameters().size()},
         .status = member.status,
         .learning_rate = members_.rank_of(member) == 0 ? member.learning_rate : std::nan(""),
         .stop_on_non_finite = member.stop_on_non_finite});
    keep_step(member, member.status);
    ++updates_;
    members_.last_progress = Clock::now();
    members_.changed.notify_all();
  }
  void keep_step(PsMember& member, std::span<const double> status) {
    member.last_step = member.sent;
    member.last_status.assign(status.begin(), status.end());
    member.has_sent = false;
    ++member.clock;
    if (!member.place.empty())
      progress_.places[static_cast<std::size_t>(members_.rank_of(member))] = member.place;
  }

  ShardKeeper& keeper_;
  PsMembers& members_;
  const PsPlace& place_;
  const ParameterServerOptions& options_;
  PsProgress progress_;
  std::string given_;          // to the fit of its first worker
  std::string failure_;        // why the chief cannot begin the next one; empty: it may come
  bool has_state_ = false;     // whether the keeper has the state of the fit
  bool is_restored_ = false;   // that state is the backup's, and the chief has not gone on with it
  std::uint64_t settled_ = 0;  // the last fit after which the chief has settled
  bool has_settled_anew_ = false;  // and given other variables
  bool begins_anew_ = false;       // the backup is of a training that has ended
  std::int64_t updates_ = 0;       // made since the last backup
  bool backup_is_due_ = false;
  Buffer sum_;
  std::vector<double> sum_of_status_;
};

}}}  // namespace lockstep::detail
