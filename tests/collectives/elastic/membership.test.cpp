#include "lockstep/collectives/elastic/membership.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/elastic/detail/talk.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/meeting/socket.hpp"
#include "support/captured_stderr.hpp"
#include "support/free_addresses.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using lockstep::testing::free_addresses;

namespace {

CommunicationOptions hurried() { return {.startup_timeout = 10s}; }

/// A member of a cluster, on a thread of this process.
struct Member {
  std::unique_ptr<Membership> membership;
  std::shared_ptr<KeptPort> port = std::make_shared<KeptPort>();
  std::future<void> forming;

  Member(int slot, const std::vector<std::string>& addresses, const ElasticOptions& elastic,
         const CommunicationOptions& options = hurried())
      : membership(std::make_unique<Membership>(slot, addresses, elastic, options)) {}
  void form() {
    forming = std::async(std::launch::async, [this] { membership->form(port); });
  }
  void works() {
    forming.get();
    membership->works();
  }
};

}  // namespace

TEST_CASE("Membership: all form a world, one leaves, the others go on, and it is taken in again") {
  const auto addresses = free_addresses(3);
  const ElasticOptions elastic{.min_workers = 2, .wait = 500ms};
  std::vector<std::unique_ptr<Member>> members;
  for (int slot = 0; slot < 3; ++slot)
    members.push_back(std::make_unique<Member>(slot, addresses, elastic));
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  for (const auto& member : members) {
    CHECK(member->membership->description() == "world 1: workers 0 1 2 (3 of 3)");
    CHECK(member->membership->addresses() == members[0]->membership->addresses());
    CHECK_FALSE(member->membership->has_newcomer());
    CHECK(member->port->is_set());
  }
  CHECK(members[1]->membership->addresses()[1] != addresses[1]);  // a port of its own

  members[0].reset();
  const auto begin = std::chrono::steady_clock::now();
  for (const int slot : {1, 2}) members[static_cast<std::size_t>(slot)]->form();
  for (const int slot : {1, 2}) members[static_cast<std::size_t>(slot)]->works();
  CHECK(std::chrono::steady_clock::now() - begin >= 500ms);
  CHECK(members[2]->membership->description() == "world 2: workers 1 2 (2 of 3)");
  CHECK(members[2]->membership->world().rank_of(2) == 1);

  members[0] = std::make_unique<Member>(0, addresses, elastic);
  members[0]->form();
  for (int i = 0; i < 1000 && !members[1]->membership->has_newcomer(); ++i)
    std::this_thread::sleep_for(10ms);
  REQUIRE(members[1]->membership->has_newcomer());
  for (const int slot : {1, 2}) members[static_cast<std::size_t>(slot)]->form();
  for (const auto& member : members) member->works();
  CHECK(members[0]->membership->description() == "world 3: workers 0 1 2 (3 of 3)");
}

TEST_CASE("Membership: one of two does not go on alone") {
  const auto addresses = free_addresses(2);
  const ElasticOptions elastic{.wait = 100ms};
  std::vector<std::unique_ptr<Member>> members;
  for (int slot = 0; slot < 2; ++slot)
    members.push_back(std::make_unique<Member>(slot, addresses, elastic));
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  members[1].reset();
  members[0]->form();
  try {
    members[0]->forming.get();
    FAIL("formed a world");
  } catch (const CollectiveError& error) {
    CHECK(error.exit_code() == ExitCode::lost_peer);
    CHECK(std::string(error.what()).find("there are here: 0; missing: 1") != std::string::npos);
  }
}

TEST_CASE("Membership: one without the cluster's secret, or with other options, is turned away") {
  const auto addresses = free_addresses(2);
  lockstep_test::CapturedStderr captured;
  {
    Member other(0, addresses, {.min_workers = 2}, {.startup_timeout = 1500ms});
    Member member(1, addresses, {.min_workers = 1}, {.startup_timeout = 1500ms});
    other.form();
    member.form();
    CHECK_THROWS_AS(member.forming.get(), CollectiveError);
    CHECK_THROWS_AS(other.forming.get(), CollectiveError);
  }
  CHECK(
      captured.text().find("claims to be worker 1 of 2, with min_workers 1; this is worker 0 of 2, "
                           "with min_workers 2: it is turned away") != std::string::npos);
}

TEST_CASE("Membership: one of another build is turned away, and the others go on without it") {
  const auto addresses = free_addresses(3);
  const ElasticOptions elastic{.min_workers = 2, .wait = 300ms};
  std::vector<std::unique_ptr<Member>> members;
  for (int slot = 0; slot < 3; ++slot)
    members.push_back(std::make_unique<Member>(slot, addresses, elastic));
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  members[2].reset();
  for (const std::size_t slot : {0u, 1u}) members[slot]->form();
  for (const std::size_t slot : {0u, 1u}) members[slot]->works();

  lockstep_test::CapturedStderr captured;
  auto hurry = hurried();
  hurry.startup_timeout = 1500ms;
  Membership other(2, addresses, elastic, hurry, "another build");
  CHECK_THROWS_AS(other.form(std::make_shared<KeptPort>()), CollectiveError);
  CHECK_FALSE(members[0]->membership->has_newcomer());
  CHECK_FALSE(members[1]->membership->has_newcomer());
  CHECK(captured.text().find("with min_workers 2, another build; this is worker ") !=
        std::string::npos);
}

TEST_CASE("Membership: what makes no sense is refused") {
  const auto addresses = free_addresses(2);
  CHECK_THROWS_AS(Membership(0, addresses, {.min_workers = 3}, {}), ConfigurationError);
  const Membership one(0, addresses, {}, {});
  CommunicationOptions hurry;
  hurry.startup_timeout = 200ms;
  CHECK_THROWS_AS(Membership(0, addresses, {}, hurry), ConfigurationError);  // the port is taken
}

TEST_CASE("Membership: two claims in one breath, of which the first does not fit, disturb nobody") {
  using lockstep::detail::FormationMessage;
  const auto addresses = free_addresses(2);
  const lockstep_test::CapturedStderr captured;
  const ElasticOptions elastic{.min_workers = 2};
  Member host(0, addresses, elastic);
  host.form();
  const auto secret = lockstep::detail::ClusterSecret::given_or_from_environment({});
  const Address address = parse_address(addresses[0]);
  for (int i = 0; i < 20; ++i) {
    std::string why;
    const auto names = lockstep::detail::resolve(address.host, address.port, why);
    REQUIRE_FALSE(names.empty());
    lockstep::detail::FormationTalk talk(
        lockstep::detail::MeetingConnection(
            lockstep::detail::call_socket(names[0], std::chrono::steady_clock::now() + 5s, why),
            nullptr),
        secret, true);
    for (int tries = 0; tries < 500 && talk.hear().empty(); ++tries)
      std::this_thread::sleep_for(1ms);
    FormationMessage claim{.kind = FormationMessage::Kind::claim,
                           .slot = 1,
                           .slots = 2,
                           .min_workers = 1,
                           .version = 1,
                           .address = "127.0.0.1:1"};
    talk.say(claim);
    claim.min_workers = 2;
    talk.say(claim);
    bool is_over = false;
    for (int tries = 0; tries < 2000 && !is_over; ++tries) {
      (void)talk.hear();
      is_over = !talk.is_open();
      std::this_thread::sleep_for(1ms);
    }
    CHECK(is_over);
  }
  Member member(1, addresses, elastic);
  member.form();
  member.works();
  host.works();
  CHECK(host.membership->description() == "world 1: workers 0 1 (2 of 2)");
}

TEST_CASE(
    "Membership: without a descriptor to spare, it waits and does not spin, and says so once") {
  const auto addresses = free_addresses(2);
  Member member(0, addresses, {.min_workers = 2});
  member.form();
  std::this_thread::sleep_for(300ms);  // its threads have all that they need
  const Address own = parse_address(addresses[0]);
  std::vector<detail::MeetingSocket> strangers;
  for (int i = 0; i < 3; ++i)
    strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::string why;
  const auto names = detail::resolve(own.host, own.port, why);
  REQUIRE_FALSE(names.empty());
  const auto processor_time = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  lockstep_test::CapturedStderr captured;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int next = ::dup(0);  // the lowest that is free
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (const auto& stranger : strangers)
    CHECK(::connect(stranger.get(), detail::plain(names[0]), detail::size_of(names[0])) == 0);
  const auto before = processor_time();
  std::this_thread::sleep_for(2500ms);
  const auto spent = processor_time() - before;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(spent < 500ms);
  const std::string text = captured.text();
  const auto first = text.find("cannot be taken: Too many open files (ulimit -n)");
  CHECK(first != std::string::npos);
  CHECK(text.find("cannot be taken", first + 1) == std::string::npos);

  Member other(1, addresses, {.min_workers = 2});  // then all is well
  other.form();
  member.works();
  other.works();
  CHECK(other.membership->description() == "world 1: workers 0 1 (2 of 2)");
}
