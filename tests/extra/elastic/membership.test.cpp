#include "lockstep/extra/elastic/membership.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/extra/elastic/formation.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/socket.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "support/captured_stderr.hpp"
#include "support/certificates.hpp"
#include "support/formation_stranger.hpp"
#include "support/free_addresses.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using lockstep_test::free_addresses;

namespace {

CommunicationOptions hurried() { return {.startup_timeout = 10s}; }

/// A member of a cluster, on a thread of this process.
struct Member {
  std::unique_ptr<detail::Worlds> membership;
  std::shared_ptr<KeptPort> port = std::make_shared<KeptPort>();
  std::future<void> forming;

  Member(int slot, const std::vector<std::string>& addresses, const ElasticOptions& elastic,
         const CommunicationOptions& options = hurried())
      : membership(detail::join_worlds(slot, addresses, elastic, options)) {}
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
                           "with min_workers 2; it is turned away") != std::string::npos);
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
  const auto other = detail::join_worlds(2, addresses, elastic, hurry, "another build");
  CHECK_THROWS_AS(other->form(std::make_shared<KeptPort>()), CollectiveError);
  CHECK_FALSE(members[0]->membership->has_newcomer());
  CHECK_FALSE(members[1]->membership->has_newcomer());
  CHECK(captured.text().find("with min_workers 2, another build; this is worker ") !=
        std::string::npos);
}

TEST_CASE("Membership: what makes no sense is refused") {
  const auto addresses = free_addresses(2);
  CHECK_THROWS_AS((void)detail::join_worlds(0, addresses, {.min_workers = 3}, {}),
                  ConfigurationError);
  const auto one = detail::join_worlds(0, addresses, {}, {});
  CommunicationOptions hurry;
  hurry.startup_timeout = 200ms;
  CHECK_THROWS_AS((void)detail::join_worlds(0, addresses, {}, hurry),
                  ConfigurationError);  // the port is taken
}

TEST_CASE(
    "Membership: two claims in one breath, of which the first does not fit, disturb no member") {
  using lockstep::detail::FormationMessage;
  const auto addresses = free_addresses(2);
  const lockstep_test::CapturedStderr captured;
  const ElasticOptions elastic{.min_workers = 2};
  Member proposer(0, addresses, elastic);
  proposer.form();
  const auto secret = lockstep::detail::ClusterSecret::given_or_from_environment({});
  const Address address = parse_address(addresses[0]);
  for (int i = 0; i < 20; ++i) {
    std::string why;
    const auto names = lockstep::detail::resolve(address.host, address.port, why);
    REQUIRE_FALSE(names.empty());
    lockstep::detail::FormationTalk talk(
        lockstep::detail::call_socket(names[0], std::chrono::steady_clock::now() + 5s, why),
        nullptr, secret, lockstep::detail::Conversation::Side::caller);
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
  proposer.works();
  CHECK(proposer.membership->description() == "world 1: workers 0 1 (2 of 2)");
}

TEST_CASE(
    "Membership: without a descriptor to spare, it waits and does not spin, and says so once") {
  const auto addresses = free_addresses(2);
  Member member(0, addresses, {.min_workers = 2});
  member.form();
  std::this_thread::sleep_for(300ms);  // its threads have all that they need
  const Address own = parse_address(addresses[0]);
  std::vector<detail::Descriptor> strangers;
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
  const auto first = text.find("cannot be taken: Too many open files; this process may have ");
  CHECK(first != std::string::npos);
  CHECK(text.find("cannot be taken", first + 1) == std::string::npos);

  Member other(1, addresses, {.min_workers = 2});  // then all is well
  other.form();
  member.works();
  other.works();
  CHECK(other.membership->description() == "world 1: workers 0 1 (2 of 2)");
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

namespace {

using lockstep_test::Authority;
using lockstep_test::claim_slot;
using lockstep_test::Claimed;

CommunicationOptions with_files(const TlsFiles& files) {
  return {.startup_timeout = 10s, .tls = Tls::certificates, .tls_files = files};
}
std::shared_ptr<const detail::TlsContext> context(const TlsFiles& files, int slot) {
  return detail::TlsContext::make({.tls = Tls::certificates, .files = files}, {}, slot);
}

}  // namespace

TEST_CASE("Membership: with certificates, each for its place in the cluster, worlds come and go") {
  const lockstep_test::TemporaryFolder folder;
  const Authority authority(folder.path());
  const auto addresses = free_addresses(3);
  const ElasticOptions elastic{.min_workers = 2, .wait = 300ms};
  std::vector<TlsFiles> files;
  std::vector<std::unique_ptr<Member>> members;
  for (int slot = 0; slot < 3; ++slot) {
    files.push_back(authority.issue(slot));
    members.push_back(std::make_unique<Member>(slot, addresses, elastic, with_files(files.back())));
  }
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  members[0].reset();
  for (const std::size_t slot : {1u, 2u}) members[slot]->form();
  for (const std::size_t slot : {1u, 2u}) members[slot]->works();
  CHECK(members[1]->membership->description() == "world 2: workers 1 2 (2 of 3)");

  // Strangers claim the place of a member, and a vacant one.
  const lockstep_test::CapturedStderr captured;
  const Claimed first = claim_slot(addresses[1], context(files[0], 0), 1, 2, 3, 2);
  CHECK(first.is_closed);
  CHECK(first.messages == 1);
  CHECK(captured.text().find("claims to be worker 2, with a certificate for rank-0.lockstep, and "
                             "not for rank-2.lockstep; it is turned away") != std::string::npos);
  const Claimed second = claim_slot(addresses[2], context(files[1], 1), 2, 0, 3, 2);
  CHECK(second.is_closed);
  CHECK(captured.text().find("claims to be worker 0, with a certificate for rank-1.lockstep, and "
                             "not for rank-0.lockstep; it is turned away") != std::string::npos);
  CHECK_FALSE(members[1]->membership->has_newcomer());
  CHECK_FALSE(members[2]->membership->has_newcomer());

  members[0] = std::make_unique<Member>(0, addresses, elastic, with_files(files[0]));
  members[0]->form();
  for (int i = 0; i < 1000 && !members[1]->membership->has_newcomer(); ++i)
    std::this_thread::sleep_for(10ms);
  REQUIRE(members[1]->membership->has_newcomer());
  for (const std::size_t slot : {1u, 2u}) members[slot]->form();
  for (const auto& member : members) member->works();
  CHECK(members[0]->membership->description() == "world 3: workers 0 1 2 (3 of 3)");
}

TEST_CASE("Membership: with certificates, each stranger is turned away by name") {
  const lockstep_test::TemporaryFolder folder;
  const Authority authority(folder.path()), other(folder.path(), "other");
  const TlsFiles own = authority.issue(0);
  std::shared_ptr<const detail::TlsContext> stranger;
  std::string said, itself;
  SUBCASE("the certificate of another worker") {
    stranger = context(authority.issue(2), 2);
    said = "claims to be worker 1, with a certificate for rank-2.lockstep, and not for rank-1";
  }
  SUBCASE("an expired one") {
    stranger = context(authority.issue(1, 2), 1);
    std::this_thread::sleep_for(3100ms);
    said = "shows a certificate that has expired, by this machine's clock (it was valid until ";
  }
  SUBCASE("one of another authority") {
    TlsFiles files = other.issue(1);
    files.authority = folder.path("both.pem");  // it trusts the door
    std::ofstream(files.authority)
        << std::ifstream(authority.file()).rdbuf() << std::ifstream(other.file()).rdbuf();
    stranger = context(files, 1);
    said = "the authority of LOCKSTEP_TLS_AUTHORITY must have signed it";
  }
  SUBCASE("a pre-shared key") {
    stranger = detail::TlsContext::make({.tls = Tls::pre_shared_key},
                                        detail::ClusterSecret("a secret of the test's own"), 1);
    said = "have no proof for TLS in common: one may have a pre-shared key and the other a";
    itself = "shows a certificate for TLS, and this worker has a pre-shared key; LOCKSTEP_TLS";
  }
  SUBCASE("plain text") { said = "speaks without TLS, and this worker only with it; LOCKSTEP_TLS"; }
  SUBCASE("a door that is another worker's") {
    stranger = context(authority.issue(1), 1);
    const auto addresses = free_addresses(3);
    const auto door = detail::join_worlds(0, addresses, {.min_workers = 2}, with_files(own));
    CHECK(claim_slot(addresses[0], stranger, 2, 1, 3, 2)
              .problem.find(
                  "shows the certificate of another worker: it is for rank-0.lockstep, not for "
                  "rank-2.lockstep; LOCKSTEP_TLS_CERTIFICATE must name") != std::string::npos);
    return;
  }
  const auto addresses = free_addresses(3);
  const lockstep_test::CapturedStderr captured;
  const auto door = detail::join_worlds(0, addresses, {.min_workers = 2}, with_files(own));
  const Claimed claimed = claim_slot(addresses[0], stranger, 0, 1, 3, 2);
  CHECK(claimed.is_closed);
  CHECK(claimed.messages <= 1);  // its hello, if TLS has let the stranger in
  std::string text;
  for (int i = 0; i < 500 && text.find("turned away") == std::string::npos; ++i) {
    std::this_thread::sleep_for(10ms);
    text = captured.text();
  }
  CAPTURE(text);
  CAPTURE(claimed.problem);
  CHECK(claimed.problem.find(itself) != std::string::npos);
  CHECK(text.find("start-up: a process at 127.0.0.1 ") != std::string::npos);
  CHECK(text.find(said) != std::string::npos);
  CHECK(text.find("; it is turned away") != std::string::npos);
}

TEST_CASE("Membership: a certificate that was renewed is read for the next world") {
  const lockstep_test::TemporaryFolder folder;
  const Authority authority(folder.path());
  const auto addresses = free_addresses(2);
  const ElasticOptions elastic{.min_workers = 1, .wait = 300ms};
  std::vector<std::unique_ptr<Member>> members;
  for (int slot = 0; slot < 2; ++slot)
    members.push_back(
        std::make_unique<Member>(slot, addresses, elastic, with_files(authority.issue(slot))));
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  (void)authority.issue(0, -60);  // into the same file
  CHECK_THROWS_WITH_AS(
      members[0]->membership->form(members[0]->port),
      doctest::Contains("rank-0.pem has expired, by this machine's clock (it was valid until"),
      ConfigurationError);
  (void)authority.issue(0);
  for (const auto& member : members) member->form();
  for (const auto& member : members) member->works();
  CHECK(members[0]->membership->description() == "world 2: workers 0 1 (2 of 2)");
}

TEST_CASE("Membership: the door shows a certificate that was renewed, though no world is formed") {
  const lockstep_test::TemporaryFolder folder;
  const Authority former(folder.path()), now(folder.path(), "now");
  const TlsFiles own = former.issue(0), renewed = now.issue(0);
  const auto stranger = context(now.issue(1), 1);
  const auto addresses = free_addresses(3);
  const lockstep_test::CapturedStderr captured;
  const auto door = detail::join_worlds(0, addresses, {.min_workers = 2}, with_files(own));
  const Claimed before = claim_slot(addresses[0], stranger, 0, 1, 3, 2, {}, 2s);
  CHECK(before.messages == 0);
  CHECK(before.problem.find("the authority of LOCKSTEP_TLS_AUTHORITY must have signed it") !=
        std::string::npos);
  std::filesystem::copy_file(renewed.key, own.key,
                             std::filesystem::copy_options::overwrite_existing);
  std::this_thread::sleep_for(1100ms);
  // Half of the new files are of no use, and do no harm.
  CHECK(claim_slot(addresses[0], stranger, 0, 1, 3, 2, {}, 2s).messages == 0);
  for (const auto& [from, to] : {std::pair(renewed.certificate, own.certificate),
                                 std::pair(renewed.authority, own.authority)})
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  std::this_thread::sleep_for(1100ms);
  const Claimed after = claim_slot(addresses[0], stranger, 0, 1, 3, 2, {}, 2s);
  CHECK(after.messages >= 1);
  CHECK(after.problem.empty());
}

TEST_CASE("Membership: strangers who fill the door and say nothing keep no worker out") {
  const lockstep_test::TemporaryFolder folder;
  const Authority authority(folder.path());
  const auto addresses = free_addresses(2);
  const ElasticOptions elastic{.min_workers = 2};
  Member proposer(0, addresses, elastic, with_files(authority.issue(0)));
  proposer.form();
  const Address own = parse_address(addresses[0]);
  std::string why;
  const auto names = detail::resolve(own.host, own.port, why);
  REQUIRE_FALSE(names.empty());
  std::vector<detail::Descriptor> strangers;
  for (int i = 0; i < 300; ++i)
    strangers.push_back(detail::call_socket(names[0], std::chrono::steady_clock::now() + 5s, why));
  Member member(1, addresses, elastic, with_files(authority.issue(1)));
  const auto begin = std::chrono::steady_clock::now();
  member.form();
  member.works();
  proposer.works();
  CHECK(std::chrono::steady_clock::now() - begin < 8s);  // before the strangers' time is over
  CHECK(proposer.membership->description() == "world 1: workers 0 1 (2 of 2)");
}

#endif
