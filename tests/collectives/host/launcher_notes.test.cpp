#include "lockstep/collectives/host/launcher_notes.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace ls = lockstep;

namespace {

/// The notes that f writes in a child process; with `in_place`, its launcher has given it that
/// descriptor in place of a pipe's.
template <class F>
std::string notes_of(F f, int in_place = -1) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LOCKSTEP_NOTE_FD", std::to_string(in_place >= 0 ? in_place : ends[1]).c_str(), 1);
    f();
    ::_exit(::fcntl(ends[1], F_GETFD) == FD_CLOEXEC ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == (in_place >= 0 ? 1 : 0));  // no child of the worker inherits it
  return text;
}

}  // namespace

TEST_SUITE("launcher_notes") {
  TEST_CASE("a failure names the worker by its address") {
    CHECK(notes_of([] {
            ls::detail::note_failure(
                {.failed_rank = 3, .address = "127.0.0.1:99", .reason = "was\nsilent"});
            ls::detail::note_failure(
                {.failed_rank = 3, .address = "a:1", .operation = "start-up", .reason = "late"});
            ls::detail::note_failure({.failed_rank = 3, .reason = "a thread failed"});
            ls::detail::note_failure(
                {.failed_rank = 3, .address = "a:1", .code = ls::ExitCode::usage});
            ls::detail::note_waiting("a:1");
            ls::detail::note_world(3, "0 2");
            ls::detail::note_stopping();
          }) ==
          "lost 127.0.0.1:99 was?silent\nmissed a:1 late\nfollows\nfollows\nwaits a:1\n"
          "world 3 0 2\nstops\n");
  }

  TEST_CASE("met carries the time") {
    const auto before = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::string text = notes_of([] { ls::detail::note_met(); });
    REQUIRE(text.starts_with("met "));
    CHECK(std::stoll(text.substr(4)) >= before);
    CHECK(std::stoll(text.substr(4)) <=
          std::chrono::steady_clock::now().time_since_epoch().count());
  }

  TEST_CASE("what is no pipe gets nothing") {
    CHECK(notes_of([] { ls::detail::note_stopping(); }, 999).empty());
    const int file = ::open("/dev/null", O_WRONLY);
    CHECK(notes_of([] { ls::detail::note_stopping(); }, file).empty());
    ::close(file);
  }
}
