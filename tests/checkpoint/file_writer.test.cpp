#include "lockstep/checkpoint/file_writer.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::some_bytes;
using lockstep_test::TemporaryFolder;

TEST_CASE("file_kind: names what is no regular file") {
  CHECK(std::string(ls::detail::file_kind(S_IFDIR)) == "a folder");
  CHECK(std::string(ls::detail::file_kind(S_IFIFO)) == "a FIFO");
  CHECK(std::string(ls::detail::file_kind(S_IFSOCK)) == "a socket");
  CHECK(std::string(ls::detail::file_kind(S_IFCHR)) == "a device");
  CHECK(std::string(ls::detail::file_kind(S_IFBLK)) == "a device");
}

TEST_CASE("end_of_links: what is no link is its own end") {
  CHECK(ls::detail::end_of_links("no/such/file") == "no/such/file");
  CHECK(ls::detail::end_of_links("plain") == "plain");
}

namespace {

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

/// What is to happen at one of the system calls of a write.
enum class Fault { no_space, io_error, short_write, stop };

/// The system calls of a write, of which the `at`-th (from 0) is made to go wrong.
struct FaultyCalls {
  struct Plan {
    int at = -1;
    Fault fault = Fault::no_space;
    int made = 0;
  };
  Plan* plan;

  /// True when this call shall fail; errno then says why.
  bool fails() {
    if (plan->made++ != plan->at) return false;
    if (plan->fault == Fault::stop) ::_exit(9);
    errno = plan->fault == Fault::io_error ? EIO : ENOSPC;
    return plan->fault != Fault::short_write;
  }
  int open(const char* path, int flags) { return fails() ? -1 : calls().open(path, flags); }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) {
    const bool is_short = plan->made == plan->at && plan->fault == Fault::short_write;
    return fails() ? -1 : calls().write(descriptor, bytes, is_short ? size / 3 : size);
  }
  int fsync(int descriptor) { return fails() ? -1 : calls().fsync(descriptor); }
  int close(int descriptor) {
    const bool failed = fails();
    const int result = calls().close(descriptor);  // as POSIX does, also when it reports an error
    return failed ? -1 : result;
  }
  int rename(const char* from, const char* to) { return fails() ? -1 : calls().rename(from, to); }
  int link(const char* from, const char* to) { return fails() ? -1 : calls().link(from, to); }
  int unlink(const char* path) { return fails() ? -1 : calls().unlink(path); }

 private:
  static ls::detail::FileCalls calls() { return {}; }
};

/// A file in memory that takes at most 3 bytes at once, and is interrupted by a signal before each
/// of them.
struct SlowCalls {
  std::vector<std::byte> taken;
  bool interrupted = false;
  ssize_t write(int, const void* bytes, std::size_t size) {
    interrupted = !interrupted;
    if (interrupted) {
      errno = EINTR;
      return -1;
    }
    const std::size_t count = std::min<std::size_t>(size, 3);
    const auto* const from = static_cast<const std::byte*>(bytes);
    taken.insert(taken.end(), from, from + count);
    return static_cast<ssize_t>(count);
  }
};

}  // namespace

TEST_CASE("write_all: continues after short writes and after signals") {
  SlowCalls calls;
  CHECK(ls::detail::write_all(calls, 0, some_bytes(10)));
  CHECK(calls.taken == some_bytes(10));
}

TEST_CASE("File: is closed at the end of its scope, once") {
  const TemporaryFolder folder;
  int descriptor = -1;
  {
    const ls::detail::File<> file(folder.path("f"), O_WRONLY | O_CREAT);
    REQUIRE(file.is_open());
    descriptor = file.get();
    CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);  // no child inherits it
  }
  CHECK(::fcntl(descriptor, F_GETFD) == -1);
  ls::detail::File<> closed(folder.path("f"), O_RDONLY);
  CHECK(closed.close());
  CHECK_FALSE(closed.is_open());
  CHECK_FALSE(ls::detail::File<>(folder.path("no/f"), O_RDONLY).is_open());
}

TEST_CASE("folder_of: a plain name is in the working folder") {
  CHECK(ls::detail::folder_of("a/b/c") == "a/b");
  CHECK(ls::detail::folder_of("c") == ".");
  CHECK(ls::detail::folder_of("/c") == "/");
}

TEST_CASE(
    "write_file_through: whichever system call of a write fails, the old file or the new one is "
    "there, whole") {
  const auto old_bytes = some_bytes(700, 1);
  const auto new_bytes = some_bytes(900, 2);
  ls::ByteParts new_parts{std::span(new_bytes).first(300)};
  new_parts.add(std::span(new_bytes).subspan(300));
  FaultyCalls::Plan whole;
  {
    const TemporaryFolder folder;
    ls::detail::write_file_through(FaultyCalls{&whole}, folder.path("f"), new_parts);
  }
  CHECK(whole.made ==
        9);  // open, write, write, fsync, close, rename; open, fsync, close of the folder
  for (const Fault fault : {Fault::no_space, Fault::io_error, Fault::short_write, Fault::stop}) {
    for (int at = 0; at < whole.made; ++at) {
      CAPTURE(static_cast<int>(fault));
      CAPTURE(at);
      const TemporaryFolder folder;
      const std::string path = folder.path("f");
      ls::write_file_atomically(path, old_bytes);
      FaultyCalls::Plan plan{.at = at, .fault = fault};
      const auto write = [&] {
        ls::detail::write_file_through(FaultyCalls{&plan}, path, new_parts);
      };
      if (fault == Fault::stop) {
        const pid_t child = ::fork();
        if (child == 0) {
          write();
          ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        REQUIRE(WEXITSTATUS(status) == 9);
      } else if (fault == Fault::short_write || at == 8) {
        write();  // a short write is completed, and an error at closing the folder is ignored
        CHECK(ls::read_file(path) == new_bytes);
      } else {
        const std::string message = message_of<ls::Error>(write);
        CHECK(contains(message, folder.path()));
        CHECK(contains(
            message, fault == Fault::io_error ? "Input/output error" : "No space left on device"));
        CHECK(files_in(folder.path()) == 1);  // the temporary file is gone
      }
      CHECK(ls::read_file(path) == (at > 5 || fault == Fault::short_write ? new_bytes : old_bytes));
      // Whatever has happened: the next write is as good as ever, and what was left goes with the
      // next run.
      ls::remove_stale_temporaries(path);
      CHECK(files_in(folder.path()) == 1);
      ls::write_file_atomically(path, new_bytes);
      CHECK(ls::read_file(path) == new_bytes);
    }
  }
}

TEST_CASE(
    "write_file_through: with the former file kept, whichever call fails, one of the two is there, "
    "whole") {
  const auto oldest = some_bytes(500, 1), old_bytes = some_bytes(700, 2),
             new_bytes = some_bytes(900, 3);
  const auto write = [](FaultyCalls::Plan& plan, const std::string& path,
                        const ls::ByteParts& bytes) {
    ls::detail::write_file_through(FaultyCalls{&plan}, path, bytes, ls::detail::KeepPrevious::yes);
  };
  FaultyCalls::Plan whole;
  {
    const TemporaryFolder folder;
    write(whole, folder.path("f"), old_bytes);
  }
  CHECK(whole.made ==
        9);  // open, write, fsync, close, link, rename; the folder: open, fsync, close
  constexpr int calls = 11;  // with link, unlink and link of the existing file
  for (int at = 0; at < calls; ++at) {
    CAPTURE(at);
    const TemporaryFolder folder;
    const std::string path = folder.path("f");
    ls::write_file_keeping_previous(path, oldest);
    ls::write_file_keeping_previous(path, old_bytes);
    FaultyCalls::Plan plan{.at = at, .fault = Fault::stop};
    const pid_t child = ::fork();
    if (child == 0) {
      write(plan, path, new_bytes);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WEXITSTATUS(status) == 9);
    CHECK(ls::read_file(path) == (at > 7 ? new_bytes : old_bytes));
    const auto previous = ls::read_file(ls::previous_generation(path));
    if (at <= 5) CHECK(previous == oldest);
    if (at == 6) CHECK_FALSE(previous.has_value());
    if (at >= 7) CHECK(previous == old_bytes);

    // Without hard links, the name moves from one to the other.
    FaultyCalls::Plan no_links{.at = 4, .fault = Fault::io_error};
    write(no_links, path, new_bytes);
    CHECK(ls::read_file(path) == new_bytes);
    CHECK(ls::read_file(ls::previous_generation(path)) == (at > 7 ? new_bytes : old_bytes));
  }
}

TEST_CASE("temporary files: each has a name of its own, which is recognised") {
  const TemporaryFolder folder;
  ls::detail::TemporaryFile<ls::detail::FileCalls> a(folder.path("f"), {}), b(folder.path("f"), {});
  CHECK(a.path() != b.path());
  for (const auto* file : {&a, &b})
    CHECK(
        ls::detail::is_temporary_of("f", std::filesystem::path(file->path()).filename().string()));
  for (const char* other :
       {"f", "f.tmp.", "f.tmp.x", "f.tmp.1.1", "g.tmp.1", "f.tmp.01234567012345670", "ff.tmp.1"})
    CHECK_FALSE(ls::detail::is_temporary_of("f", other));
  CHECK(ls::detail::is_temporary_of("f", "f.tmp.4711"));
}

namespace {

/// Puts a link that leads to "victim" into the place of the first file, just before it is made.
struct IntrudedCalls : ls::detail::FileCalls {
  std::vector<std::string>* opened = nullptr;
  int open(const char* path, int flags) {
    opened->push_back(path);
    if (opened->size() == 1) std::filesystem::create_symlink("victim", path);
    return FileCalls::open(path, flags);
  }
};

}  // namespace

TEST_CASE(
    "temporary files: an existing file or link is not opened, even if it appears at the last "
    "moment") {
  const TemporaryFolder folder;
  std::vector<std::string> opened;
  IntrudedCalls calls;
  calls.opened = &opened;
  const ls::detail::TemporaryFile<IntrudedCalls> file(folder.path("f"), calls);
  REQUIRE(opened.size() == 2);
  CHECK(std::filesystem::is_symlink(opened[0]));
  CHECK(file.path() == opened[1]);
  CHECK(opened[0] != opened[1]);
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(file.path())));
  CHECK_FALSE(std::filesystem::exists(folder.path("victim")));
}
