#include "lockstep/cluster/detail/worker_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep::detail;
using namespace lockstep_test;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

namespace {

/// Another host: a folder, and a shell that gets what ssh would pass on.
class OtherHost {
 public:
  OtherHost() {
    start.folder = folder_.path("it's $HOME");
    std::filesystem::create_directory(start.folder);
  }

  RemoteStart start{.meeting = "a:1", .job = "j", .workers = 2};

  /// Runs a shell script as worker 1, to its end. The input stays open, and goes on with `later`
  /// when the script has made the file `ready`.
  [[nodiscard]] Finished run(const std::string& script, const std::string& later = "") const {
    return run_shell(R"sh(
      mkfifo in && exec 8<>in && printf %s "$INPUT" >&8 || exit 99  # opened so, it does not end
      [ -z "$LATER" ] || {
        for i in $(seq 400); do [ ! -e "$READY" ] || break; sleep 0.05; done
        printf %s "$LATER" >&8
      } >/dev/null 2>&1 &
      sh -c "$COMMAND" <&8)sh",
                     script, later);
  }
  /// The same with an input that ends behind the variables.
  [[nodiscard]] Finished run_cut_off(const std::string& script) const {
    return run_shell(R"sh(printf %s "$INPUT" | sh -c "$COMMAND")sh", script, "");
  }

 private:
  [[nodiscard]] Finished run_shell(const std::string& shell, const std::string& script,
                                   const std::string& later) const {
    return run_process({"/bin/sh", "-c", "cd \"$FOLDER\" || exit 99\n" + shell},
                       {{"FOLDER", folder_.path()},
                        {"READY", start.folder + "/ready"},
                        {"INPUT", remote_variables(start, 1)},
                        {"LATER", later},
                        {"COMMAND", remote_command(start, "/bin/sh", {"sh", "-c", script})},
                        {"TF_CONFIG", "the launcher's own"}},
                       30s);
  }

  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("remote worker: a word for a shell is one word, whatever it holds") {
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's $HOME") == R"('it'\''s $HOME')");
  for (const std::string text : {"a b", "$(exit 3)", "\"", "''", "a\nb", "*", "\\", "-n"}) {
    CAPTURE(text);
    const Finished finished =
        run_process({"/bin/sh", "-c", "printf '%s.' " + shell_word(text)}, {}, 30s);
    CHECK(finished.output == text + ".");
  }
}

TEST_CASE("remote worker: the words of a command, however many spaces are between them") {
  CHECK(words_of("  ssh -p  22 ") == Words{"ssh", "-p", "22"});
  CHECK(words_of("ssh") == Words{"ssh"});
  CHECK(words_of("").empty());
  CHECK(words_of("   ").empty());
}

TEST_CASE("remote worker: its input is its variables, its place, and a dot") {
  const RemoteStart start{
      .meeting = "a:1", .job = "j", .environment = {"A=b c", "D="}, .workers = 2};
  CHECK(remote_variables(start, 1) ==
        "A=b c\nD=\nLOCKSTEP_LAUNCHER=hosts\nLOCKSTEP_NOTE_FD=9\nLOCKSTEP_RANK=1\n"
        "LOCKSTEP_WORLD_SIZE=2\nLOCKSTEP_MEETING_ADDRESS=a:1\nLOCKSTEP_JOB_ID=j\n.\n");
}

TEST_CASE("remote worker: it runs in the folder, with these variables and without an input") {
  OtherHost host;
  host.start.environment = {"SECRET=it's  $HOME"};
  const Finished finished = host.run(R"sh(
    pwd; echo "$SECRET, $LOCKSTEP_RANK, ${TF_CONFIG-unset}"; read -r line; echo "[$line]"; exit 7)sh");
  CHECK(finished.exit_code == 7);
  CHECK(finished.output == host.start.folder + "\nit's  $HOME, 1, unset\n[]\n");
}

TEST_CASE("remote worker: its notes are marked lines of the standard error") {
  const Finished finished =
      OtherHost().run("echo met 5 >&$LOCKSTEP_NOTE_FD; echo shown; echo stops >&$LOCKSTEP_NOTE_FD");
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, std::string(remote_note_mark) + "met 5\n"));
  CHECK(contains(finished.output, std::string(remote_note_mark) + "stops\n"));
  CHECK(contains(finished.output, "shown\n"));
  CHECK_FALSE(contains(finished.output, std::string(remote_note_mark) + "shown"));
}

TEST_CASE("remote worker: the name of a signal on its input reaches it") {
  const Finished finished = OtherHost().run(R"sh(
    trap 'echo told; exit 3' TERM
    : > ready
    for i in $(seq 400); do sleep 0.05; done)sh",
                                            "TERM\n");
  CHECK(finished.exit_code == 3);
  CHECK(finished.output == "told\n");
}

TEST_CASE("remote worker: it is killed when its input ends") {
  const Finished finished = OtherHost().run_cut_off("exec sleep 60");
  CHECK_FALSE(finished.timed_out);
  CHECK(finished.exit_code == 128 + SIGKILL);
}

TEST_CASE("remote worker: without its folder it does not begin") {
  OtherHost host;
  host.start.folder += " that is nowhere";
  const Finished finished = host.run("echo begun");
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 125);
  CHECK(contains(finished.output, "that is nowhere"));
  CHECK_FALSE(contains(finished.output, "begun"));
}
