#include "lockstep/training/agreement.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Runs f(collective) as each of `ranks` threads, and returns what each gives.
template <class F>
auto on_ranks(int ranks, F f) {
  ls::InProcessGroup group(ranks);
  std::vector<decltype(f(std::declval<ls::InProcess&>()))> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ls::InProcess member = group.member(rank);
      results[static_cast<std::size_t>(rank)] = f(member);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

/// The message that each rank gets when the ranks have these descriptions.
std::vector<std::string> messages(const std::vector<std::string>& descriptions) {
  return on_ranks(static_cast<int>(descriptions.size()), [&](ls::InProcess& member) {
    return message_of<ls::ConfigurationError>([&] {
      ls::detail::agree(member, "compile", descriptions[static_cast<std::size_t>(member.rank())]);
    });
  });
}

using Lines = std::pair<std::string_view, std::string_view>;

}  // namespace

TEST_CASE("first_difference: the first lines that differ") {
  using ls::detail::first_difference;
  CHECK_FALSE(first_difference("", "").has_value());
  CHECK_FALSE(first_difference("a\nb", "a\nb").has_value());
  CHECK(first_difference("a\nb\nc", "a\nx\ny") == Lines{"b", "x"});
  CHECK(first_difference("a", "a\nb") == Lines{"", "b"});
  CHECK(first_difference("a\nb", "a") == Lines{"b", ""});
  CHECK(first_difference("", "b") == Lines{"", "b"});
  CHECK(first_difference("a", "ab") == Lines{"a", "ab"});
}

TEST_CASE("agree: equal descriptions pass") {
  CHECK(messages({"a: 1\nb: 2", "a: 1\nb: 2", "a: 1\nb: 2"}) ==
        std::vector<std::string>(3, "NO EXCEPTION"));
  CHECK(messages({"", ""}) == std::vector<std::string>(2, "NO EXCEPTION"));
  CHECK(messages({"alone"}) == std::vector<std::string>{"NO EXCEPTION"});
  ls::Single single;
  ls::detail::agree(single, "compile", "anything");
}

TEST_CASE(
    "agree: ranks in different ones of several calls of a kind learn the first and the last") {
  using Numbers = std::pair<std::uint64_t, std::uint64_t>;
  const auto numbers = [](std::vector<std::uint64_t> of_ranks) {
    return on_ranks(static_cast<int>(of_ranks.size()), [&](ls::InProcess& member) {
      const auto number = of_ranks[static_cast<std::size_t>(member.rank())];
      return ls::detail::agree(member, "fit", std::to_string(number), {}, 1, number);
    });
  };
  CHECK(numbers({3, 1, 2}) == std::vector<Numbers>(3, {1, 3}));
  CHECK(numbers({2, 2}) == std::vector<Numbers>(2, {2, 2}));
  CHECK(numbers({4}) == std::vector<Numbers>{{4, 4}});
  // A call without a number is no such call, and compared.
  const auto heard = on_ranks(2, [](ls::InProcess& member) {
    const bool fits = member.rank() == 0;
    return message_of<ls::ConfigurationError>(
        [&] { (void)ls::detail::agree(member, fits ? "fit" : "load", "", {}, 1, fits ? 1 : 0); });
  });
  for (const std::string& message : heard)
    CHECK(contains(message, "worker 0 is in fit, worker 1 in load"));
}

TEST_CASE("agree: every rank hears which rank differs from the chief, and in what") {
  const auto heard = messages(
      {"model: a\noptimizer: sgd", "model: a\noptimizer: sgd", "model: a\noptimizer: adam"});
  for (const std::string& message : heard) {
    CHECK(message == heard[0]);
    CHECK(contains(message,
                   "compile: the workers differ: worker 2 has 'optimizer: adam', the chief has "
                   "'optimizer: sgd'"));
  }
}

TEST_CASE("agree: descriptions of different lengths") {
  for (const std::string& message : messages({"a\nb", "a"}))
    CHECK(contains(message, "worker 1 has nothing there, the chief has 'b'"));
  for (const std::string& message : messages({"", "a"}))
    CHECK(contains(message, "worker 1 has 'a', the chief has nothing there"));
  for (const std::string& message : messages({"a\nb\nc", "a", std::string(5000, 'x')}))
    CHECK(contains(message, "worker 1 has nothing there"));
}

TEST_CASE("agree: ranks in different calls hear which call each is in") {
  const char* const calls[] = {"fit", "load", "fit"};
  const auto heard = on_ranks(3, [&](ls::InProcess& member) {
    const char* const call = calls[member.rank()];
    return message_of<ls::ConfigurationError>([&] {
      ls::detail::agree(member, call, member.rank() == 2 ? "epochs: 3" : "",
                        member.rank() == 1 ? "'a\nb'" : "");
    });
  });
  CHECK(heard[0] ==
        "fit: the workers are not in the same call: worker 0 is in fit, worker 1 in load('a?b'), "
        "worker 2 in fit: every "
        "worker must make the same calls in the same order");
  CHECK(heard[1] == heard[0]);
  CHECK(heard[2] == heard[0]);
}

TEST_CASE("agree: the arguments of the call may differ") {
  const auto heard = on_ranks(2, [&](ls::InProcess& member) {
    return message_of<ls::ConfigurationError>([&] {
      ls::detail::agree(member, "load", "", member.rank() == 0 ? "'a'" : "'elsewhere/a'");
    });
  });
  CHECK(heard == std::vector<std::string>(2, "NO EXCEPTION"));
}

TEST_CASE("from_chief: everybody gets the chief's value") {
  const auto values = on_ranks(3, [](ls::InProcess& member) {
    return ls::detail::from_chief(member, 10.5 + member.rank());
  });
  CHECK(values == std::vector<double>(3, 10.5));
}

TEST_CASE("bytes_from_chief: everybody gets the chief's bytes, whatever they have themselves") {
  for (const std::size_t size : {0u, 1u, 1000u}) {
    const auto all = on_ranks(3, [&](ls::InProcess& member) {
      std::vector<std::byte> mine(member.rank() == 0 ? size : 17,
                                  static_cast<std::byte>(member.rank() + 1));
      return ls::detail::bytes_from_chief(member, std::move(mine));
    });
    for (const auto& bytes : all) CHECK(bytes == std::vector<std::byte>(size, std::byte{1}));
  }
}
