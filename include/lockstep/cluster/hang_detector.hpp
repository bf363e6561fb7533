// Which worker hangs, according to its peers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A worker that others have lost although its process exists: stopped, deadlocked, or cut off.
struct HungWorker {
  int worker = -1;
  int lost_to = -1;   ///< one of those that have lost it
  std::string why{};  ///< in that peer's words
};

/// Collects what the workers of a launcher say about each other. Accusations against a worker that
/// ends by itself are dropped. Times are of the clock that the launcher and its workers share.
class HangDetector {
 public:
  using Clock = std::chrono::steady_clock;

  /// This long after the first accusation, the other workers have reported, and a process that was
  /// about to end has ended.
  static constexpr std::chrono::milliseconds time_to_settle{1000};

  explicit HangDetector(std::size_t workers) : places_(workers) {}

  /// The worker's process begins, as its first one or as a successor.
  void began(int worker, Clock::time_point now) {
    Place& place = at(worker);
    place.lives = true;
    place.is_successor = place.began.has_value();
    place.began = now;
    place.met = Clock::time_point::max();
    drop_those_against(worker);
  }
  void ended(int worker) {
    at(worker).lives = false;
    drop_those_against(worker);
  }
  /// The worker says that all workers were connected at that time.
  void met(int worker, Clock::time_point time) {
    at(worker).met = time;
    at(worker).accuses.reset();
  }
  /// `by` has lost a worker that it was connected with. This does not accuse that worker's
  /// successor, which was not connected yet.
  void lost(int by, int worker, std::string why, Clock::time_point now) {
    if (at(worker).began && *at(worker).began <= at(by).met)
      accuse(by, worker, std::move(why), now);
  }
  /// `by` has waited for a worker in a start-up that did not come. That worker may just be slow: it
  /// is accused when a successor of `by` misses it again.
  void missed(int by, int worker, std::string why, Clock::time_point now) {
    if (at(by).is_successor && at(worker).began && *at(worker).began < *at(by).began)
      accuse(by, worker, std::move(why), now);
  }

  /// When to ask for the verdict().
  [[nodiscard]] std::optional<Clock::time_point> due() const {
    std::optional<Clock::time_point> first;
    for (const Place& place : places_)
      if (place.accuses && (!first || place.accuses->since + time_to_settle < *first))
        first = place.accuses->since + time_to_settle;
    return first;
  }

  /// The worker that most others have lost; in a tie, the one that the lowest rank has lost. A
  /// worker that has itself lost another one does not hang. Drops all accusations.
  [[nodiscard]] std::optional<HungWorker> verdict(Clock::time_point now) {
    if (const auto time = due(); !time || now < *time) return std::nullopt;
    std::optional<HungWorker> hung;
    std::ptrdiff_t most = 0;
    for (std::size_t by = 0; by < places_.size(); ++by) {
      const auto& accusation = places_[by].accuses;
      if (!accusation || at(accusation->worker).accuses) continue;
      const auto votes = std::count_if(places_.begin(), places_.end(), [&](const Place& place) {
        return place.accuses && place.accuses->worker == accusation->worker;
      });
      if (votes <= most) continue;
      most = votes;
      hung = HungWorker{
          .worker = accusation->worker, .lost_to = static_cast<int>(by), .why = accusation->why};
    }
    for (Place& place : places_) place.accuses.reset();
    return hung;
  }

 private:
  struct Accusation {
    int worker;
    std::string why;
    Clock::time_point since;
  };
  struct Place {
    bool lives = false;
    bool is_successor = false;
    std::optional<Clock::time_point> began{};
    Clock::time_point met = Clock::time_point::max();  // unknown: may mean any process
    std::optional<Accusation> accuses{};
  };

  [[nodiscard]] Place& at(int worker) { return places_[static_cast<std::size_t>(worker)]; }

  void accuse(int by, int worker, std::string why, Clock::time_point now) {
    if (by != worker && at(worker).lives && !at(by).accuses)
      at(by).accuses = {worker, std::move(why), now};
  }
  void drop_those_against(int worker) {
    for (Place& place : places_)
      if (place.accuses && place.accuses->worker == worker) place.accuses.reset();
  }

  std::vector<Place> places_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
