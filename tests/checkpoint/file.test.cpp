#include "lockstep/checkpoint/file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::skip;
using lockstep_test::some_bytes;
using lockstep_test::TemporaryFolder;

namespace {

using Bytes = std::vector<std::byte>;

/// root may write everywhere, so it becomes the user nobody for a while. False when it cannot.
class Unprivileged {
 public:
  Unprivileged() : root_(::geteuid() == 0) {
    if (root_ && ::seteuid(65534) != 0) possible_ = false;
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (root_ && possible_ && ::seteuid(0) != 0) std::abort();
  }
  explicit operator bool() const { return possible_; }

 private:
  bool root_;
  bool possible_ = true;
};

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

std::string message_of_write(const std::string& path) {
  return message_of<ls::Error>([&] { ls::write_file_atomically(path, some_bytes(10)); });
}

}  // namespace

TEST_CASE("file: what was written is read back, from an empty file to a large one") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0u, 1u, 4096u, 3'000'001u}) {
    ls::write_file_atomically(folder.path("f"), some_bytes(size));
    const auto bytes = ls::read_file(folder.path("f"));
    REQUIRE(bytes.has_value());
    CHECK(*bytes == some_bytes(size));
  }
  CHECK(files_in(folder.path()) == 1);  // no temporary file is left
}

TEST_CASE("file: missing folders are made, and a plain name is one in the working folder") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("a/b/c/f"), some_bytes(3));
  CHECK(ls::read_file(folder.path("a/b/c/f")) == some_bytes(3));

  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  ls::write_file_atomically("plain", some_bytes(4));
  std::filesystem::current_path(before);
  CHECK(ls::read_file(folder.path("plain")) == some_bytes(4));
}

TEST_CASE("file: a reader that has the old file open keeps it") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("f"), some_bytes(5, 1));
  std::ifstream old(folder.path("f"), std::ios::binary);
  ls::write_file_atomically(folder.path("f"), some_bytes(9, 2));
  std::string text{std::istreambuf_iterator<char>(old), {}};
  CHECK(text.size() == 5);
  CHECK(ls::read_file(folder.path("f")) == some_bytes(9, 2));
}

TEST_CASE(
    "file: a missing file reads as nothing, in a missing folder too, and removing it is no error") {
  const TemporaryFolder folder;
  CHECK_FALSE(ls::read_file(folder.path("f")).has_value());
  CHECK_FALSE(ls::read_file(folder.path("no/f")).has_value());
  ls::remove_file(folder.path("f"));
  ls::write_file_atomically(folder.path("f"), some_bytes(5));
  CHECK_FALSE(ls::read_file(folder.path("f/g")).has_value());
  ls::remove_file(folder.path("f"));
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("file: errors name the path") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("folder"));
  CHECK(contains(message_of<ls::Error>([&] { (void)ls::read_file(folder.path("folder")); }),
                 "'" + folder.path("folder") + "': it is no regular file"));
  CHECK(contains(message_of_write(folder.path("folder")), folder.path("folder")));
  CHECK(contains(message_of<ls::Error>([&] { ls::remove_file(folder.path("folder")); }),
                 folder.path("folder")));
  CHECK(files_in(folder.path()) == 1);  // no temporary file is left

  ls::write_file_atomically(folder.path("file"), some_bytes(3));
  CHECK(contains(message_of_write(folder.path("file/sub/f")), folder.path("file")));
  CHECK(contains(message_of_write(folder.path("file/f")), folder.path("file")));
  CHECK(ls::read_file(folder.path("file")) == some_bytes(3));
}

TEST_CASE("file: a folder that may not be written is an error, and the old file stays") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("f"), some_bytes(5));
  ::chmod(folder.path().c_str(), 0555);
  std::string write, make, remove;
  bool possible = false;
  {
    const Unprivileged user;
    possible = static_cast<bool>(user);
    write = message_of_write(folder.path("f"));
    make = message_of_write(folder.path("new/f"));
    remove = message_of<ls::Error>([&] { ls::remove_file(folder.path("f")); });
  }
  ::chmod(folder.path().c_str(), 0755);
  if (!possible) return skip("a folder that may not be written", "to become another user");
  CHECK(contains(write, "cannot create '" + folder.path("f")));
  CHECK(contains(write, "Permission denied"));
  CHECK(contains(make, "cannot make the folder '" + folder.path("new")));
  CHECK(contains(remove, "cannot remove '" + folder.path("f")));
  CHECK(ls::read_file(folder.path("f")) == some_bytes(5));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("file: a file that may not be read is an error, not a missing file") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("f"), some_bytes(5));
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(folder.path("f").c_str(), 0);
  std::string message;
  bool possible = false;
  {
    const Unprivileged user;
    possible = static_cast<bool>(user);
    message = message_of<ls::Error>([&] { (void)ls::read_file(folder.path("f")); });
  }
  if (!possible) return skip("a file that may not be read", "to become another user");
  CHECK(contains(message, "cannot open '" + folder.path("f")));
}

TEST_CASE(
    "file: stale temporary files are removed, those that a live process writes and those of other "
    "files are not") {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  ls::write_file_atomically(path, some_bytes(3));
  for (const char* name : {"f.tmp.1", "f.tmp.99999999", "f.tmp.7", "g.tmp.7", "f.tmp"})
    std::ofstream(folder.path(name)) << "half";
  const int writer = ::open(folder.path("f.tmp.7").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(writer, LOCK_EX) == 0);
  ls::remove_stale_temporaries(path);
  CHECK_FALSE(std::filesystem::exists(folder.path("f.tmp.1")));
  CHECK_FALSE(std::filesystem::exists(folder.path("f.tmp.99999999")));
  for (const char* name : {"f", "f.tmp.7", "g.tmp.7", "f.tmp"})
    CHECK(std::filesystem::exists(folder.path(name)));
  ::close(writer);
  ls::remove_stale_temporaries(path);
  CHECK_FALSE(std::filesystem::exists(folder.path("f.tmp.7")));
  ls::remove_stale_temporaries(folder.path("no/such/f"));
}

TEST_CASE("file: a symbolic link with the name of a temporary file is not followed") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("victim"), some_bytes(7));
  const std::string guessed = folder.path("f") + ".tmp." + std::to_string(::getpid());
  std::filesystem::create_symlink(folder.path("victim"), guessed);
  ls::write_file_atomically(folder.path("f"), some_bytes(20, 5));
  CHECK(ls::read_file(folder.path("victim")) == some_bytes(7));
  CHECK(ls::read_file(folder.path("f")) == some_bytes(20, 5));
  ls::remove_stale_temporaries(folder.path("f"));  // not a regular file, so not a temporary
  CHECK(std::filesystem::is_symlink(guessed));
}

TEST_CASE("file: only the remains of a write are removed") {
  const TemporaryFolder folder;
  for (const char* name : {"f.tmp.0123456789abcdef", "f.tmp.note", "f.tmp.", "f.tmp.1.bak"})
    std::ofstream(folder.path(name)) << "half";
  REQUIRE(::mkfifo(folder.path("f.tmp.12").c_str(), 0600) == 0);
  ls::remove_stale_temporaries(folder.path("f"));  // does not wait for a writer of the FIFO
  CHECK_FALSE(std::filesystem::exists(folder.path("f.tmp.0123456789abcdef")));
  for (const char* name : {"f.tmp.note", "f.tmp.", "f.tmp.1.bak", "f.tmp.12"})
    CHECK(std::filesystem::exists(folder.path(name)));
}

TEST_CASE("file: through symbolic links, the file that they lead to is replaced") {
  const TemporaryFolder folder;
  ls::write_file_atomically(folder.path("deep/file"), some_bytes(5));
  std::filesystem::create_symlink("deep/file", folder.path("link"));
  std::filesystem::create_symlink(folder.path("link"), folder.path("link to link"));
  ls::write_file_keeping_previous(folder.path("link to link"), some_bytes(9, 3));
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(std::filesystem::is_symlink(folder.path("link to link")));
  CHECK(ls::read_file(folder.path("deep/file")) == some_bytes(9, 3));
  CHECK(ls::previous_generation(folder.path("link")) == folder.path("deep/file.previous"));
  CHECK(ls::read_file(folder.path("deep/file.previous")) == some_bytes(5));
  std::filesystem::create_symlink("nothing yet", folder.path("dangling"));
  ls::write_file_atomically(folder.path("dangling"), some_bytes(3));
  CHECK(ls::read_file(folder.path("nothing yet")) == some_bytes(3));
  std::filesystem::create_symlink("circle", folder.path("circle"));
  CHECK(contains(message_of_write(folder.path("circle")), "more than 40 symbolic links"));
}

TEST_CASE("file: a device is written to, and stays a device") {
  const TemporaryFolder folder;
  std::string full = folder.path("full");
  const bool made = ::mknod(full.c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0;
  const int probe =
      made ? ::open(full.c_str(), O_WRONLY | O_CLOEXEC) : -1;  // some mounts allow none
  if (probe >= 0) ::close(probe);
  if (probe < 0 && ::geteuid() == 0)
    return skip("a device", "devices on this mount: root could replace the real one");
  if (probe < 0) full = "/dev/full";
  CHECK(contains(message_of_write(full), "cannot write '" + full + "': No space left on device"));
  struct stat status {};
  REQUIRE(::lstat(full.c_str(), &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
  ls::write_file_atomically("/dev/null", some_bytes(10));
  REQUIRE(::lstat("/dev/null", &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
}

TEST_CASE("file: does not wait for a FIFO, and does not replace one") {
  const TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(contains(message_of<ls::Error>([&] { (void)ls::read_file(fifo); }),
                 "cannot read '" + fifo + "': it is no regular file but a FIFO"));
  CHECK(contains(message_of_write(fifo),
                 "cannot write '" + fifo + "': it is no regular file but a FIFO"));
  CHECK(std::filesystem::is_fifo(fifo));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("file: a check sees the beginning and the size before memory is taken for the rest") {
  const TemporaryFolder folder;
  const std::string sparse = folder.path("sparse");
  std::ofstream(sparse) << "begin";
  constexpr std::uint64_t size = std::uint64_t{1} << 44;  // more than any machine has
  if (::truncate(sparse.c_str(), static_cast<off_t>(size)) != 0)
    return skip("the size before memory is taken", "a file system with large sparse files");
  std::uint64_t seen = 0;
  std::string head;
  const auto check = [&](std::span<const std::byte> bytes, std::uint64_t of) {
    head.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seen = of;
    throw ls::DataError("no");
  };
  CHECK_THROWS_AS((void)ls::read_file(sparse, check), ls::DataError);
  CHECK(seen == size);
  CHECK(head.starts_with("begin"));
  CHECK(head.size() == ls::checked_head);
  CHECK(contains(
      message_of<ls::DataError>([&] { (void)ls::read_file(sparse, ls::at_most(100, "a list")); }),
      "bytes, and at most 100 are expected of a list"));
  ls::write_file_atomically(folder.path("f"), some_bytes(100));
  CHECK(ls::read_file(folder.path("f"), ls::at_most(100, "a list")) == some_bytes(100));
}
