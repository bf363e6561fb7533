#include "lockstep/checkpoint/growing_file.hpp"

#include <doctest/doctest.h>

#include <string>

#include "lockstep/core/error.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

using lockstep::Error;
using lockstep::detail::GrowingFile;
using lockstep_test::file_text;
using lockstep_test::TemporaryFolder;

TEST_CASE("growing file: it is made with its folders, and goes on where it was") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a/b/c.log");
  {
    GrowingFile file(path);
    CHECK(file.path() == path);
    CHECK(file.size() == 0);
    file.write("one\n");
  }  // the destructor writes
  CHECK(file_text(path) == "one\n");
  GrowingFile file(path);
  CHECK(file.size() == 4);
  file.write("two\n");
  CHECK(file.size() == 8);
  file.close();
  CHECK(file_text(path) == "one\ntwo\n");
}

TEST_CASE("growing file: what was flushed is in the file, and long texts do not wait for it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x");
  GrowingFile file(path);
  file.write("short");
  CHECK(file_text(path).empty());
  file.flush();
  CHECK(file_text(path) == "short");
  file.write(std::string(100'000, 'x'));
  CHECK(file_text(path).size() == 100'005);
}

TEST_CASE("growing file: what follows a size is thrown away, in the buffer too") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x");
  GrowingFile file(path);
  file.write("0123456789");
  file.flush();
  file.write("more");
  file.truncate(4);
  CHECK(file.size() == 4);
  CHECK(file_text(path) == "0123");
  file.truncate(100);  // it does not grow
  CHECK(file.size() == 4);
  file.write("!");
  file.close();
  CHECK(file_text(path) == "0123!");
}

TEST_CASE("growing file: a device is not cut") {
  GrowingFile file("/dev/null");
  file.write("gone");
  CHECK_NOTHROW(file.truncate(1));
  CHECK(file.size() == 4);
  file.close();
}

TEST_CASE("growing file: errors name the file, and the reason") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", {1});
  CHECK_THROWS_WITH_AS(GrowingFile(path + "/x"), doctest::Contains("cannot make the folder '"),
                       Error);
  CHECK_THROWS_WITH_AS(GrowingFile(folder.path()), doctest::Contains("cannot open '"), Error);
  GrowingFile full("/dev/full");
  full.write("x");
  CHECK_THROWS_WITH_AS(full.flush(), "cannot write '/dev/full': No space left on device", Error);
  CHECK_NOTHROW(full.close());  // what could not be written is not tried again
}
