#include "lockstep/core/exit_report.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using lockstep::ExitCode;
using lockstep::detail::ExitReport;

namespace {

/// The report that the peers got.
std::vector<std::string> told;

/// An object that owes its peers a reason when an exception destroys it.
struct Peer {
  bool is_left = false;
  ~Peer() {
    is_left = ExitReport::leave([](std::string_view reason, ExitCode code) {
      told.push_back(std::string(reason) + " " + std::to_string(static_cast<int>(code)));
    });
    if (!is_left) told.emplace_back("no object to leave it to");
  }
};

}  // namespace

TEST_CASE("ExitReport: an object that an exception destroys gets the message, once") {
  told.clear();
  {
    ExitReport words;
    try {
      const Peer first, second;
      throw std::runtime_error("disk full");
    } catch (const std::runtime_error& error) {
      CHECK(told.empty());
      words.say(error.what(), ExitCode::usage);
    }
    words.say("again", ExitCode::failure);
  }
  CHECK(told == std::vector<std::string>(2, "disk full 2"));
}

TEST_CASE(
    "ExitReport: the innermost of the thread, at the latest at its end; without one there is none "
    "to leave it to") {
  told.clear();
  ExitReport outer;
  {
    ExitReport inner;
    const Peer peer;
  }
  CHECK(told == std::vector<std::string>{"ended because of an exception 1"});
  std::thread([] { const Peer peer; }).join();
  CHECK(told.back() == "no object to leave it to");
  { const Peer peer; }
  outer.say("end", ExitCode::terminated);
  CHECK(told.back() == "end 143");
}

TEST_CASE(
    "ExitReport: if the program handles the exception, the peers are told soon, or at the next "
    "strategy") {
  std::atomic<int> heard = 0;
  ExitReport words;
  const auto leave = [&] {
    return ExitReport::leave(
        [&](std::string_view reason, ExitCode) { heard += reason.starts_with("ended") ? 1 : 100; });
  };
  REQUIRE(leave());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (heard == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(heard == 1);
  REQUIRE(leave());
  ExitReport::say_now();
  CHECK(heard == 2);
  words.say("too late", ExitCode::failure);
  CHECK(heard == 2);
}
