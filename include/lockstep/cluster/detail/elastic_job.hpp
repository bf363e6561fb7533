// What the launcher knows of the worlds of an elastic job.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/cluster/detail/launched_worker.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// In a world, workers have other addresses than the launcher knows. So each worker tells it by
/// number which ones are at work together.
class ElasticJob {
 public:
  /// A note "world 3 0 2": workers 0 and 2 are at work in world 3. Those of older worlds may come
  /// later. (But if all of its members have ended meanwhile, it is of their successors, which count
  /// worlds anew, even if a worker of the last one still hangs.)
  void heed(const WorkerNote& note) {
    std::int64_t epoch = 0;
    std::from_chars(note.about.data(), note.about.data() + note.about.size(), epoch);
    is_elastic_ = true;
    std::vector<int> members;
    for (std::string_view rest = note.text; !rest.empty();) {
      int member = -1;
      const char* const end = rest.data() + rest.size();
      const char* const next = std::from_chars(rest.data(), end, member).ptr;
      if (member >= 0) members.push_back(member);
      rest = next == end ? std::string_view()
                         : std::string_view(next + 1, static_cast<std::size_t>(end - next - 1));
    }
    const bool is_of_successors =
        !members.empty() && std::ranges::all_of(members, [this](int member) {
          return std::ranges::find(ended_, member) != ended_.end();
        });
    if (epoch <= epoch_ && !is_of_successors) return;
    epoch_ = epoch;
    members_ = std::move(members);
    ended_.clear();
    size_ = members_.size();
  }
  /// The process of this worker has ended. (When all have, their successors count worlds anew.)
  void ended(int worker) {
    if (std::erase(members_, worker) > 0) ended_.push_back(worker);
    if (members_.empty()) epoch_ = 0;
  }

  [[nodiscard]] bool is_elastic() const noexcept { return is_elastic_; }

  /// Whether a worker has come to the end, which all of a world do together.
  [[nodiscard]] bool is_done(const std::vector<LaunchedWorker>& workers) const {
    if (!is_elastic_) return false;
    for (const LaunchedWorker& worker : workers)
      if (!worker.task.is_server && worker.has_succeeded()) return true;
    return false;
  }
  /// Whether those that live can only wait: they came late, or were left out because they hung.
  [[nodiscard]] bool leaves_some_behind(const std::vector<LaunchedWorker>& workers) const {
    bool any = false;
    for (const LaunchedWorker& worker : workers) {
      if (worker.task.is_server || !worker.process.lives()) continue;
      if (std::find(members_.begin(), members_.end(), worker.index) != members_.end()) return false;
      any = true;
    }
    return any && is_done(workers);
  }
  /// For a message: what becomes of the job without a worker that has ended. More than half of a
  /// world form the next one.
  [[nodiscard]] std::string_view outlook() const noexcept {
    return epoch_ == 0 || 2 * members_.size() > size_
               ? "); the others go on without it, and take it in when it is started again: "
               : "); the others are no more than half of those that were at work: they wait for "
                 "it, and end if it is not started again: ";
  }
  /// Whether the job goes on, or has come to its end, without this worker, which has ended.
  [[nodiscard]] bool goes_without(const LaunchedWorker& worker,
                                  const std::vector<LaunchedWorker>& workers) const {
    if (!is_elastic_ || worker.task.is_server || worker.end.code < 128 || worker.has_agreed_to_stop)
      return false;
    return std::ranges::any_of(workers, [](const LaunchedWorker& other) {
      return !other.task.is_server && (other.process.lives() || other.has_succeeded());
    });
  }

 private:
  bool is_elastic_ = false;
  std::int64_t epoch_ = 0;
  std::vector<int> members_;  ///< of the world that still live
  std::vector<int> ended_;    ///< the others of it
  std::size_t size_ = 0;      ///< of that world
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
