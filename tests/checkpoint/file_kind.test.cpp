#include "lockstep/checkpoint/file_kind.hpp"

#include <doctest/doctest.h>

#include <string>

namespace ls = lockstep;

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
