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

}  // namespace

TEST_CASE("FileLock: one at a time, and the other one hears who has it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("deep/lock");
  {
    const ls::detail::FileLock lock(path, "the folder");
    const std::string message = refusal(path);
    CHECK(contains(message, "the folder is in use by another job (process " + std::to_string(::getpid()) + " on "));
    CHECK(contains(message, "give each job a folder of its own"));
  }
  CHECK(std::filesystem::is_empty(folder.path("deep")));  // nothing is left
  CHECK(refusal(path) == "NO EXCEPTION");
}

TEST_CASE("FileLock: of a process that was killed nothing is in the way") {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ls::detail::FileLock lock(path, "the folder");
    (void)!::write(ends[1], "!", 1);
    for (;;) ::pause();
  }
  char mark = 0;
  ::close(ends[1]);
  REQUIRE(::read(ends[0], &mark, 1) == 1);
  ::close(ends[0]);
  CHECK(contains(refusal(path), "process " + std::to_string(child) + " on "));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(path));
  CHECK(refusal(path) == "NO EXCEPTION");
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("FileLock: who comes while another one ends waits for it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const ls::detail::FileLock lock(path, "the folder");
      (void)!::write(ends[1], "!", 1);
      ::usleep(50'000);
    }
    ::_exit(0);
  }
  char mark = 0;
  ::close(ends[1]);
  REQUIRE(::read(ends[0], &mark, 1) == 1);
  ::close(ends[0]);
  const ls::detail::FileLock lock(path, "the folder", 30s);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(path));  // not the one that the other has removed
  CHECK(contains(refusal(path), "process " + std::to_string(::getpid())));
}

TEST_CASE("FileLock: what stands there is not harmed, and what others write into it is not believed") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("victim")) << "precious";
  std::filesystem::create_symlink(folder.path("victim"), folder.path("link"));
  CHECK(contains(message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("link"), "x"); }),
                 "cannot open the lock '" + folder.path("link")));
  CHECK(std::filesystem::file_size(folder.path("victim")) == 8);
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contains(message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("fifo"), "x"); }), "a FIFO"));
  CHECK(contains(message_of<ls::Error>([&] { ls::detail::FileLock(folder.path("victim/lock"), "x"); }),
                 "cannot make the folder"));

  const ls::detail::FileLock lock(folder.path("lock"), "x");
  std::ofstream(folder.path("lock")) << "\x1b[2J\nsecond line";
  CHECK(contains(refusal(folder.path("lock")), "(?[2J)"));
  std::ofstream(folder.path("lock")) << "";
  CHECK(contains(refusal(folder.path("lock")), "which has not said yet what it is"));
}
