// (First the header of which it is a part, which includes it without the library.)
#include "lockstep/cluster/launcher.hpp"
//
#include "lockstep/cluster/detail/remote_start.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

using lockstep::ConfigurationError;
using lockstep::LaunchOptions;
using lockstep::detail::remote_start;
using lockstep::detail::RemoteStart;
using Words = std::vector<std::string>;

namespace {

/// A variable of this process, for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const former = std::getenv(name)) former_ = former;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { former_ ? ::setenv(name_, former_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> former_;
};

LaunchOptions on(const Words& hosts) {
  LaunchOptions options;
  options.workers = static_cast<int>(hosts.size());
  options.hosts = hosts;
  options.ssh = "ssh -p  22";
  return options;
}

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

TEST_CASE("remote start: workers on this machine need none") {
  LaunchOptions options;
  options.workers = 2;
  options.ssh = "";
  CHECK(remote_start(options).ssh.empty());
  CHECK(remote_start(options).workers == 0);
}

TEST_CASE(
    "remote start: they meet on the first host, or on the loopback interface of the only one") {
  const Variable nowhere("LOCKSTEP_MEETING_ADDRESS", nullptr);
  const RemoteStart two = remote_start(on({"me@a", "b", "a"}));
  CHECK(two.meeting.starts_with("a:"));
  CHECK(two.workers == 3);
  CHECK(two.ssh == Words{"ssh", "-p", "22"});
  CHECK(two.folder == std::filesystem::current_path().string());
  CHECK(remote_start(on({"me@a", "me@a"})).meeting.starts_with("127.0.0.1:"));
  CHECK(remote_start(on({"fd00::1", "b"})).meeting.starts_with("[fd00::1]:"));
}

TEST_CASE("remote start: or where LOCKSTEP_MEETING_ADDRESS says, if that is an address") {
  const Variable given("LOCKSTEP_MEETING_ADDRESS", "head:7");
  CHECK(remote_start(on({"a", "a"})).meeting == "head:7");
  const Variable wrong("LOCKSTEP_MEETING_ADDRESS", "head");
  CHECK_THROWS_WITH_AS((void)remote_start(on({"a", "b"})), doctest::Contains("head"),
                       ConfigurationError);
}

TEST_CASE("remote start: two launchers have two jobs") {
  CHECK(remote_start(on({"a"})).job != remote_start(on({"a"})).job);
}

TEST_CASE("remote start: the variables of the library are passed on, and no others") {
  const Variable secret("LOCKSTEP_CLUSTER_SECRET", "a b"), library("LD_LIBRARY_PATH", "/x"),
      listens("LOCKSTEP_LISTEN_FD", "3"), other("OF_THE_USER", "y");
  const Words passed_on = remote_start(on({"a"})).environment;
  CHECK(contains(passed_on, "LOCKSTEP_CLUSTER_SECRET=a b"));
  CHECK(contains(passed_on, "LD_LIBRARY_PATH=/x"));
  CHECK_FALSE(contains(passed_on, "LOCKSTEP_LISTEN_FD=3"));
  CHECK_FALSE(contains(passed_on, "OF_THE_USER=y"));
}

TEST_CASE("remote start: no command, and a variable of two lines, are refused") {
  LaunchOptions without = on({"a"});
  without.ssh = "  ";
  CHECK_THROWS_WITH_AS((void)remote_start(without), "the ssh command is empty", ConfigurationError);
  const Variable lines("LOCKSTEP_RUN_ID", "a\nb");
  CHECK_THROWS_WITH_AS((void)remote_start(on({"a"})), doctest::Contains("LOCKSTEP_RUN_ID"),
                       ConfigurationError);
}
