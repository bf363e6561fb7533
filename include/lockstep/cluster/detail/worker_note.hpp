// What a worker tells its launcher (see collectives/host/launcher_notes.hpp).
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
