// A worker or server as the launcher knows it: its process, and how that has ended.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cluster/detail/worker_process.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A note in its parts: "lost 127.0.0.1:4711 was silent for 10 s".
struct WorkerNote {
  std::string_view kind;   ///< "lost"
  std::string_view about;  ///< a peer's address, or a time
  std::string_view text;   ///< the rest

  explicit WorkerNote(std::string_view note) {
    const auto word = [&] {
      const std::size_t end = std::min(note.find(' '), note.size());
      const std::string_view taken = note.substr(0, end);
      note.remove_prefix(std::min(end + 1, note.size()));
      return taken;
    };
    kind = word();
    about = word();
    text = note;
  }

  /// `about` as a time of the clock that all processes of a machine share.
  [[nodiscard]] std::chrono::steady_clock::time_point time() const {
    using Clock = std::chrono::steady_clock;
    Clock::rep time = 0;
    std::from_chars(about.data(), about.data() + about.size(), time);
    return Clock::time_point(Clock::duration(time));
  }
};

struct LaunchedWorker {
  using Clock = std::chrono::steady_clock;

  LaunchedWorker(int place, int restarts, std::string host = {})
      : LaunchedWorker({.index = place}, place, restarts, std::move(host)) {}
  LaunchedWorker(LaunchedTask with, int place, int restarts, std::string host = {})
      : index(place), task(with), process(with, std::move(host)), restarts_left(restarts) {}

  int index;  ///< among all processes of the launcher
  LaunchedTask task;
  WorkerProcess process;
  int restarts_left;
  ProcessEnd end{};
  int order = 0;                      ///< the first worker that ended is 1
  bool by_peer = false;               ///< it failed because another worker did
  bool by_launcher = false;           ///< it had been told to stop
  std::optional<std::string> hung{};  ///< it was killed for that: "lost to worker 0 (...)"
  std::optional<Clock::time_point> lost_another{};  ///< and has not connected since
  bool keeps_others_waiting = false;                ///< since they were told to stop
  bool has_agreed_to_stop = false;
  /// It has ended with 0, and is started again then, unless the chief has ended with 0 too.
  std::optional<Clock::time_point> back_at{};
  bool came_back = false;  ///< it was started again at back_at
  bool was_started_again = false;
  bool left_out = false;  ///< it has ended, and an elastic job goes on without it

  /// Cleans up after a process, and starts its successor.
  void start_again(const WorkerProgram& program) {
    end = {};
    order = 0;
    by_peer = by_launcher = keeps_others_waiting = has_agreed_to_stop = came_back = false;
    hung.reset();
    lost_another.reset();
    back_at.reset();
    left_out = false;
    was_started_again = true;
    process.start(program);
  }

  [[nodiscard]] bool has_succeeded() const { return !process.lives() && end.code == 0; }
  /// The others have been told to stop, and wait for this worker, which has not agreed to.
  [[nodiscard]] bool delays_stop() const {
    return process.lives() && keeps_others_waiting && !has_agreed_to_stop && !hung;
  }
  [[nodiscard]] bool has_open_output() const {
    return process.output()[0].source().is_open() || process.output()[1].source().is_open();
  }

  /// "worker 1", "worker 1 on host b", "server 0"
  [[nodiscard]] std::string name() const {
    return process.is_remote() ? concat({task.name(), " on host ", process.host()}) : task.name();
  }
  [[nodiscard]] std::string how_it_ended() const {
    if (!hung && process.is_remote() && end.code == 255)
      return "exit code 255 of ssh: it could not connect, or lost the connection";
    if (!hung) return end.text();
    return concat({*hung, " and killed"});
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
