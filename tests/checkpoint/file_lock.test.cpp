#include "lockstep/checkpoint/file_lock.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

std::string refusal(const std::string& path) {
  return message_of<ls::ConfigurationError>([&] { ls::detail::FileLock(path, "the folder", 0ms); });
}

/// A child process that has taken the lock. It calls `hold`, releases the lock, and ends.
pid_t process_with_lock(const std::string& path, void (*hold)()) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const ls::detail::FileLock lock(path, "the folder");
      (void)!::write(ends[1], "!", 1);
      hold();
    }
    ::_exit(0);
  }
  char mark = 0;
  ::close(ends[1]);
  REQUIRE(::read(ends[0], &mark, 1) == 1);
  ::close(ends[0]);
  return child;
}

}  // namespace

TEST_CASE("FileLock: one at a time, and the other one is told which process has it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("deep/lock");
  {
    const ls::detail::FileLock lock(path, "the folder");
    const std::string message = refusal(path);
    CHECK(contains(message, "the folder is in use by another job (process " +
                                std::to_string(::getpid()) + " on "));
    CHECK(contains(message, "give each job a folder of its own"));
  }
  CHECK(std::filesystem::is_empty(folder.path("deep")));  // nothing is left
  CHECK(refusal(path) == "NO EXCEPTION");
}

TEST_CASE("FileLock: what a killed process leaves behind is no obstacle") {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  const pid_t child = process_with_lock(path, [] {
    for (;;) ::pause();
  });
  CHECK(contains(refusal(path), "process " + std::to_string(child) + " on "));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(path));
  CHECK(refusal(path) == "NO EXCEPTION");
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("FileLock: waits for a process that is about to release it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  const pid_t child = process_with_lock(path, [] { ::usleep(50'000); });
  const ls::detail::FileLock lock(path, "the folder", 30s);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(path));  // not the file that the child has removed
  CHECK(contains(refusal(path), "process " + std::to_string(::getpid())));
}

TEST_CASE(
    "FileLock: a file in the way is not harmed, and what other processes write into the lock is "
    "not trusted") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("victim")) << "precious";
  std::filesystem::create_symlink(folder.path("victim"), folder.path("link"));
  CHECK(contains(message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("link"), "x"); }),
                 "cannot open the lock '" + folder.path("link")));
  CHECK(std::filesystem::file_size(folder.path("victim")) == 8);
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contains(message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("fifo"), "x"); }),
                 "a FIFO"));
  CHECK(contains(
      message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("victim/lock"), "x"); }),
      "cannot make the folder"));

  const ls::detail::FileLock lock(folder.path("lock"), "x");
  std::ofstream(folder.path("lock")) << "\x1b[2J\nsecond line";
  CHECK(contains(refusal(folder.path("lock")), "(?[2J)"));
  std::ofstream(folder.path("lock")) << "";
  CHECK(contains(refusal(folder.path("lock")), "which has not said yet what it is"));
}
