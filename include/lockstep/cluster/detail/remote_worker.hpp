// How a worker is started on another host, by ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What all workers on other hosts have in common.
struct RemoteStart {
  std::vector<std::string> ssh{};  ///< the command and its options
  std::string folder{};            ///< in which they run, on each host
  std::string meeting{};           ///< "host:port", where rank 0 waits
  std::string job{};               ///< differs from that of any other launcher
  std::vector<std::string>
      environment{};  ///< "NAME=value" without a line break: the launcher's own
  int workers = 0;
};

/// Each note of a worker on another host comes as a line of its standard error that begins so.
inline constexpr std::string_view remote_note_mark = "\036lockstep-note ";

/// For a shell: one word, whatever it holds.
[[nodiscard, gnu::cold]] inline std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

/// The words of a command line, which spaces separate.
[[nodiscard, gnu::cold]] inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = text.find(' ');
    if (end != 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

/// What the shell of the other host runs. On its standard input it gets variables, a line each up
/// to a "." (so that no secret stands in a list of processes), and then the names of signals for
/// the worker. When that input ends, the launcher or the connection has gone, and the worker is
/// killed with its children. The worker's notes (see collectives/host/launcher_notes.hpp) go to
/// standard error, marked; the exit code is the worker's.
[[nodiscard, gnu::cold]] inline std::string remote_command(
    const RemoteStart& start, std::string_view program, const std::vector<std::string>& arguments) {
  std::string worker = shell_word(program);
  for (std::size_t i = 1; i < arguments.size(); ++i) worker += " " + shell_word(arguments[i]);
  constexpr std::string_view begin =
      " || exit 125; unset TF_CONFIG; "
      "while IFS= read -r v && [ \"$v\" != . ]; do export \"$v\"; done; "
      "s=; command -v setsid >/dev/null && s=setsid; exec 3<&0 4>&1; { $s ";
  // Up to the bar, standard output is the pipe of the notes.
  constexpr std::string_view end =
      " </dev/null 9>&1 >&4 3<&- 4>&- & p=$!; "
      "{ while read -r n <&3; do kill -s \"$n\" $p; done; "
      "kill -s KILL -- -$p 2>/dev/null || kill -s KILL $p; } >/dev/null 2>&1 & w=$!; "
      "wait $p; c=$?; kill -s KILL $w; echo \"exit $c\"; } | "
      "{ c=125; while IFS= read -r n; do case $n in \"exit \"*) c=${n#exit };; "
      "*) printf \"\\036lockstep-note %s\\n\" \"$n\" >&2;; esac; done; exit $c; }";
  const std::string script = concat({"cd ", shell_word(start.folder), begin, worker, end});
  return "exec sh -c " + shell_word(script);
}

/// What it reads first.
[[nodiscard, gnu::cold]] inline std::string remote_variables(const RemoteStart& start, int rank) {
  std::string text;
  for (const std::string& variable : start.environment) text += variable + "\n";
  return text + concat({"LOCKSTEP_LAUNCHER=hosts\nLOCKSTEP_NOTE_FD=9\nLOCKSTEP_RANK=", rank,
                        "\nLOCKSTEP_WORLD_SIZE=", start.workers, "\nLOCKSTEP_MEETING_ADDRESS=",
                        start.meeting, "\nLOCKSTEP_JOB_ID=", start.job, "\n.\n"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
