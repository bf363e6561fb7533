#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The launcher's pipe, -1 without a launcher. Programs that this one starts do not get it.
LOCKSTEP_INLINE int note_descriptor() noexcept {
  static const int descriptor = [] {
    const char* text = std::getenv("LOCKSTEP_NOTE_FD");
    if (text == nullptr) return -1;
    const int named = std::atoi(text);
    struct stat status {};
    if (::fstat(named, &status) != 0 || !S_ISFIFO(status.st_mode)) return -1;
    ::fcntl(named, F_SETFD, FD_CLOEXEC);
    return named;
  }();
  return descriptor;
}

LOCKSTEP_INLINE void write_note(std::initializer_list<TextPiece> pieces) noexcept {
  const int descriptor = note_descriptor();
  if (descriptor < 0) return;
  try {
    const std::string line = printable(concat(pieces), 1000) + '\n';  // in one piece up to 4096
    (void)!::write(descriptor, line.data(), line.size());
  } catch (...) {  // out of memory: the launcher sees the exit code
  }
}

LOCKSTEP_INLINE void note_address(std::string_view address) noexcept {
  write_note({"at ", address});
}

LOCKSTEP_INLINE void note_met() noexcept {
  write_note({"met ", std::chrono::steady_clock::now().time_since_epoch().count()});
}

LOCKSTEP_INLINE void note_world(std::int64_t epoch, std::string_view members) noexcept {
  write_note({"world ", epoch, " ", members});
}

LOCKSTEP_INLINE void note_failure(const CollectiveFailure& failure) noexcept {
  if (failure.code != ExitCode::lost_peer || failure.address.empty())
    return write_note({"follows"});
  write_note({failure.operation == "start-up" ? "missed " : "lost ", failure.address, " ",
              failure.reason});
}

LOCKSTEP_INLINE void note_waiting(std::string_view address) noexcept {
  write_note({"waits ", address});
}

LOCKSTEP_INLINE void note_stopping() noexcept { write_note({"stops"}); }

}}}  // namespace lockstep::detail
