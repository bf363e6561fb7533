#include "lockstep/collectives/protocol/handshake.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "lockstep/core/random.hpp"
#include "support/messages.hpp"

using namespace lockstep;
using namespace lockstep::detail;
using Outcome = Handshake::Outcome;
using lockstep_test::contains;

namespace {

Hello worker(int rank) {
  Hello result;
  result.from = rank;
  result.incarnation = 100 + static_cast<std::uint64_t>(rank);
  result.addresses = {"a:1", "b:2", "c:3"};
  result.properties = {{"scalar", "float"}};
  return result;
}

Handshake call(const Hello& mine, int peer, const ClusterSecret& secret = {}) {
  return Handshake::caller(mine, secret, peer, Hello::Channel::control);
}

/// Moves what one has to say to the other, `chunk` bytes at a time as a socket would, and returns
/// it.
std::string pass(Handshake& from, Handshake& to, std::size_t chunk = 7) {
  std::string passed;
  while (!from.out().empty()) {
    const std::string bytes(from.out().substr(0, std::min(chunk, to.wanted())));
    if (to.outcome() != Outcome::open || bytes.empty()) break;
    from.sent(bytes.size());
    to.take(bytes);
    passed += bytes;
  }
  return passed;
}

void converse(Handshake& caller, Handshake& callee) {
  while (!pass(caller, callee).empty() || !pass(callee, caller).empty()) {
  }
}

}  // namespace

TEST_SUITE("handshake") {
  TEST_CASE("two workers that fit agree") {
    Handshake caller = call(worker(2), 0);
    Handshake callee = Handshake::callee(worker(0), {});
    converse(caller, callee);
    CHECK(caller.outcome() == Outcome::agreed);
    CHECK(callee.outcome() == Outcome::agreed);
    CHECK(caller.theirs().from == 0);
    CHECK(callee.theirs().from == 2);
    CHECK(callee.theirs().channel == Hello::Channel::control);
    CHECK_FALSE(callee.is_authenticated());
  }

  TEST_CASE("both sides name what keeps them apart") {
    Hello other = worker(1);
    other.properties[0].second = "double";
    Handshake caller = call(other, 0);
    Handshake callee = Handshake::callee(worker(0), {});
    converse(caller, callee);
    CHECK(caller.outcome() == Outcome::refused);
    CHECK(callee.outcome() == Outcome::refused);
    CHECK(caller.problem() == "has scalar float, this worker has double");
    CHECK(callee.problem() == "has scalar double, this worker has float");
  }

  TEST_CASE("both sides name another number of connections for data") {
    Hello one = worker(0), four = worker(0);
    four.lane = 3;
    for (const auto& [first, second] : {std::pair{one, four}, std::pair{four, one}}) {
      Hello mine = first;
      mine.from = 1;
      mine.incarnation = 101;
      Handshake caller = Handshake::caller(mine, {}, 0, Hello::Channel::control, first.lane);
      Handshake callee = Handshake::callee(second, {});
      converse(caller, callee);
      CHECK(caller.outcome() == Outcome::refused);
      CHECK(callee.outcome() == Outcome::refused);
      CHECK(contains(caller.problem(), "has CommunicationOptions::connections "));
      CHECK(contains(callee.problem(), "has CommunicationOptions::connections "));
    }
    Handshake caller = Handshake::caller(worker(1), {}, 0, Hello::Channel::data, 2);
    Handshake callee = Handshake::callee(four, {});
    converse(caller, callee);
    CHECK(caller.outcome() == Outcome::agreed);
    CHECK(callee.outcome() == Outcome::agreed);
    CHECK(callee.theirs().lane == 2);
  }

  TEST_CASE("a caller that does not know the cluster learns no more than in what it differs") {
    Hello other = worker(1);
    std::string kind;
    SUBCASE("world size") {
      other.addresses.pop_back();
      kind = "world size";
    }
    SUBCASE("an address") {
      other.addresses[2] = "d:4";
      kind = "address of worker 2";
    }
    SUBCASE("version") { other.version = 9; }
    Handshake caller = call(other, 0);
    Handshake callee = Handshake::callee(worker(0), {});
    pass(caller, callee);
    CHECK(callee.outcome() == Outcome::refused);
    Hello learnt;
    REQUIRE(Hello::decode(callee.out(), learnt));
    CHECK(learnt.is_bare());
    CHECK(learnt.incarnation == 0);
    for (const char* ours : {"a:1", "b:2", "c:3", "scalar", "float"})
      CHECK(callee.out().find(ours) == std::string_view::npos);
    pass(callee, caller);
    CHECK(caller.outcome() == Outcome::refused);
    if (!kind.empty())
      CHECK(caller.problem().find("has another " + kind + " than this worker") == 0);
  }

  TEST_CASE(
      "a worker at work answers probes, and sends everybody else away without a word about "
      "itself") {
    Handshake probe = Handshake::caller(worker(1), {}, 0, Hello::Channel::probe);
    Handshake asked = Handshake::callee_at_work(worker(0), {});
    converse(probe, asked);
    CHECK(probe.outcome() == Outcome::agreed);
    CHECK(probe.theirs().incarnation == 100);
    Handshake caller = call(worker(1), 0);
    Handshake callee = Handshake::callee_at_work(worker(0), {});
    converse(caller, callee);
    CHECK(caller.outcome() == Outcome::at_work);
    CHECK(callee.outcome() == Outcome::stranger);
    CHECK(caller.theirs().addresses.empty());
  }

  TEST_CASE("a worker of an elastic job, and one of a job that is not, are told what differs") {
    for (const bool talks : {false, true}) {
      const Hello talk = Hello::of_talk("formation");
      Handshake caller = Handshake::caller(talks ? talk : worker(1), {}, 0,
                                           talks ? Hello::Channel::talk : Hello::Channel::control);
      Handshake callee = Handshake::callee(talks ? worker(0) : talk, {});
      converse(caller, callee);
      CHECK(caller.outcome() == Outcome::refused);
      CHECK(caller.problem() == (talks ? is_fixed : is_elastic));
      CHECK(callee.outcome() == Outcome::stranger);
      CHECK(callee.problem() == (talks ? is_elastic : is_fixed));
    }
  }

  TEST_CASE("a talk is of one kind") {
    const auto talk = [](const char* kind) {
      return Handshake::caller(Hello::of_talk(kind), {}, 0, Hello::Channel::talk);
    };
    Handshake caller = talk("meeting"), other = talk("formation");
    Handshake callee = Handshake::callee(Hello::of_talk("meeting"), {}), second = callee;
    converse(caller, callee);
    CHECK(caller.is_trusted());
    CHECK(callee.is_trusted());
    converse(other, second);
    CHECK(other.outcome() == Outcome::refused);
    CHECK(second.outcome() == Outcome::refused);
  }

  TEST_CASE("strangers get no answer, and a process that calls itself notices") {
    Handshake callee = Handshake::callee(worker(0), {});
    callee.take("GET / HTTP/1.1");
    CHECK(callee.outcome() == Outcome::stranger);
    CHECK(callee.out().empty());
    Handshake caller = call(worker(1), 0);
    Handshake self = Handshake::callee(worker(1), {});
    pass(caller, self);
    CHECK(self.outcome() == Outcome::myself);
  }

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

  const ClusterSecret secret("correct horse battery staple");

  TEST_CASE("workers that share a secret prove it to each other") {
    Handshake caller = call(worker(2), 0, secret);
    Handshake callee = Handshake::callee(worker(0), secret);
    converse(caller, callee);
    CHECK(caller.outcome() == Outcome::agreed);
    CHECK(callee.outcome() == Outcome::agreed);
    CHECK(caller.is_authenticated());
    CHECK(callee.is_authenticated());
  }

  TEST_CASE("proofs of messages hold for one conversation, one role and one message") {
    const auto talk = [&] {
      Handshake caller =
          Handshake::caller(Hello::of_talk("meeting"), secret, 0, Hello::Channel::talk);
      Handshake callee = Handshake::callee(Hello::of_talk("meeting"), secret);
      converse(caller, callee);
      REQUIRE(caller.is_trusted());
      REQUIRE(callee.is_trusted());
      return std::pair(caller.seal(), callee.seal());
    };
    const auto [caller, callee] = talk();
    const std::string sealed = caller.sealed("caller says", "text");
    CHECK(callee.opened("caller says", sealed) == "text");
    CHECK_FALSE(callee.opened("callee says", sealed));
    CHECK_FALSE(callee.opened("caller says", "Text" + sealed.substr(4)));
    CHECK_FALSE(callee.opened("caller says", "text"));
    CHECK_FALSE(callee.opened("caller says", sealed.substr(1)));
    CHECK_FALSE(talk().second.opened("caller says", sealed));
    CHECK_FALSE(Seal(ClusterSecret("another secret"), "").opened("caller says", sealed));
    CHECK(Seal({}, "").opened("caller says", "text") == "text");
  }

  TEST_CASE("a difference is named after the proof only, and on both sides") {
    Hello other = worker(1);
    other.properties[0].second = "double";
    Handshake caller = call(other, 0, secret);
    Handshake callee = Handshake::callee(worker(0), secret);
    converse(caller, callee);
    CHECK(callee.is_authenticated());
    CHECK(caller.problem() == "has scalar float, this worker has double");
    CHECK(callee.problem() == "has scalar double, this worker has float");
  }

  TEST_CASE(
      "another secret, or none on one side, is refused on both sides, and nothing is told about "
      "secret or cluster") {
    ClusterSecret callers, callees;
    std::string to_caller, to_callee;
    SUBCASE("another one") {
      callers = ClusterSecret("wrong horse");
      callees = secret;
      to_caller = to_callee =
          "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";
    }
    SUBCASE("the caller has none") {
      callees = secret;
      to_caller = "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";
      to_callee = "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
    }
    SUBCASE("the callee has none") {
      callers = secret;
      to_caller = "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
      to_callee = "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";
    }
    Handshake caller = call(worker(1), 0, callers);
    Handshake callee = Handshake::callee(worker(0), callees);
    std::string said;
    for (std::string piece = "."; !piece.empty(); said += piece) {
      pass(caller, callee);
      piece = pass(callee, caller);
    }
    CHECK(caller.outcome() == Outcome::refused);
    CHECK(callee.outcome() == Outcome::refused);
    CHECK(caller.problem() == to_caller);
    CHECK(callee.problem() == to_callee);
    CHECK_FALSE(callee.is_authenticated());
    CHECK(contains(said, "a:1") == !callees.is_set());
    CHECK_FALSE(contains(said, "horse"));
  }

  TEST_CASE(
      "a recording of an earlier handshake is refused, byte by byte the same or cut together") {
    Handshake caller = call(worker(1), 0, secret);
    Handshake callee = Handshake::callee(worker(0), secret);
    const std::string hello = pass(caller, callee);
    const std::string challenge = pass(callee, caller);
    const std::string proof = pass(caller, callee);
    const std::string answer = pass(callee, caller);
    REQUIRE(callee.outcome() == Outcome::agreed);
    REQUIRE(caller.outcome() == Outcome::agreed);
    REQUIRE(proof.size() == proof_bytes);

    SUBCASE("to the callee") {
      Handshake next = Handshake::callee(worker(0), secret);
      next.take(hello);
      CHECK(std::string(next.out()) != challenge);
      next.sent(next.out().size());
      next.take(proof);
      CHECK(next.outcome() == Outcome::refused);
      CHECK_FALSE(next.is_authenticated());
      CHECK_FALSE(contains(next.out(), "a:1"));
    }
    SUBCASE("to the caller") {
      Handshake next = call(worker(1), 0, secret);
      next.take(challenge);
      next.take(std::string_view(answer).substr(0, next.wanted()));  // the prefix
      next.take(std::string_view(answer).substr(Hello::prefix_bytes, next.wanted()));
      REQUIRE(next.outcome() == Outcome::open);
      next.take(std::string_view(answer).substr(answer.size() - proof_bytes));
      CHECK(next.outcome() == Outcome::stranger);
      CHECK(contains(next.problem(), "cannot prove"));
    }
  }

  TEST_CASE("a callee that fits, but does not ask for a proof, is not believed") {
    Handshake victim = call(worker(1), 0, secret);
    Hello pretended = worker(0);
    pretended.to = 1;
    pretended.channel = Hello::Channel::control;
    pretended.authentication = Hello::Authentication::hmac_sha256;
    const std::string answer = pretended.encode();
    victim.sent(victim.out().size());
    victim.take(std::string_view(answer).substr(0, Hello::prefix_bytes));
    victim.take(std::string_view(answer).substr(Hello::prefix_bytes));
    CHECK(victim.outcome() == Outcome::stranger);
    CHECK(victim.problem() ==
          "cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)");
    CHECK_FALSE(victim.is_authenticated());
  }

  TEST_CASE("what a worker has said itself proves nothing to it") {
    SUBCASE("its challenge as a proof") {
      Handshake callee = Handshake::callee(worker(0), secret);
      Handshake caller = call(worker(1), 0, secret);
      pass(caller, callee);
      callee.take(callee.out().substr(callee.out().size() - proof_bytes));  // its nonce
      CHECK(callee.outcome() == Outcome::refused);
    }
    SUBCASE("the caller's hello and proof") {
      Handshake victim = call(worker(1), 0, secret);
      Hello mirrored;  // the caller's nonce comes back as the challenge
      REQUIRE(Hello::decode(victim.out(), mirrored));
      mirrored.addresses.clear();
      mirrored.properties.clear();
      mirrored.incarnation = 1;
      victim.sent(victim.out().size());
      victim.take(std::string_view(mirrored.encode()).substr(0, Hello::prefix_bytes));
      victim.take(std::string_view(mirrored.encode()).substr(Hello::prefix_bytes));
      const std::string proof(victim.out());
      REQUIRE(proof.size() == proof_bytes);
      Hello pretended = worker(0);
      pretended.to = 1;
      pretended.channel = Hello::Channel::control;
      pretended.authentication = Hello::Authentication::hmac_sha256;
      victim.take(std::string_view(pretended.encode()).substr(0, Hello::prefix_bytes));
      victim.take(std::string_view(pretended.encode()).substr(Hello::prefix_bytes));
      REQUIRE(victim.outcome() == Outcome::open);
      victim.take(proof);
      CHECK(victim.outcome() == Outcome::stranger);
    }
    SUBCASE("its challenge, as the callee's of another connection that it calls itself") {
      // Rank 1 calls the attacker, which passes off rank 1's own answer to a call in the other
      // direction as its answer.
      Handshake calling = call(worker(1), 0, secret);
      Handshake called = Handshake::callee(worker(1), secret);
      Hello attacker = worker(0);
      attacker.to = 1;
      attacker.authentication = Hello::Authentication::hmac_sha256;
      const std::string hello = attacker.encode();
      called.take(std::string_view(hello).substr(0, called.wanted()));
      called.take(std::string_view(hello).substr(Hello::prefix_bytes));
      const std::string challenge(called.out());
      calling.sent(calling.out().size());
      calling.take(challenge.substr(0, Hello::prefix_bytes));
      calling.take(challenge.substr(Hello::prefix_bytes));
      called.take(calling.out());  // a proof of the right secret, for another conversation
      CHECK(called.outcome() == Outcome::refused);
    }
  }

  TEST_CASE(
      "a change of any byte on the way is refused, or makes the conversation end without "
      "agreement") {
    RandomStream random(RandomKey(5));
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
      Handshake caller = call(worker(1), 0, secret);
      Handshake callee = Handshake::callee(worker(0), secret);
      const std::uint64_t turn = random.below(2);
      for (std::uint64_t i = 0; i < 4; ++i) {
        Handshake& from = i % 2 == 0 ? caller : callee;
        Handshake& to = i % 2 == 0 ? callee : caller;
        std::string bytes(from.out());
        from.sent(bytes.size());
        if (i / 2 == turn && !bytes.empty()) {
          const std::size_t at = random.below(bytes.size());
          bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random.below(255)));
        }
        while (!bytes.empty() && to.outcome() == Outcome::open) {
          const std::size_t n = std::min(bytes.size(), to.wanted());
          to.take(std::string_view(bytes).substr(0, n));
          bytes.erase(0, n);
        }
      }
      // The last proof goes to the caller; whatever was changed, it does not agree.
      CHECK(caller.outcome() != Outcome::agreed);
      if (turn == 0) CHECK(callee.outcome() != Outcome::agreed);
      refused += callee.outcome() == Outcome::refused;
    }
    CHECK(refused > 0);
  }

  TEST_CASE("a stranger learns nothing from a worker with a secret but that it has one") {
    Hello curious;
    curious.addresses = {"x:1", "y:2"};
    curious.from = 1;
    Handshake callee = Handshake::callee(worker(0), secret);
    Handshake caller = call(curious, 0);
    pass(caller, callee);
    Hello learnt;
    REQUIRE(Hello::decode(callee.out(), learnt));
    CHECK(learnt.is_bare());
    CHECK(learnt.properties.empty());
    CHECK(learnt.incarnation == 0);
    CHECK(callee.outcome() == Outcome::refused);
  }

#endif
}

namespace {

Hello hello(int from, int to) {
  Hello result;
  result.channel = Hello::Channel::data;
  result.lane = 0x0102;
  result.from = from;
  result.to = to;
  result.incarnation = 0x0123456789ABCDEF;
  result.authentication = Hello::Authentication::hmac_sha256;
  result.nonce = std::string(nonce_bytes, 'n');
  result.addresses = {"a:1", "b:2", "c:3"};
  result.properties = {{"lockstep version", "0.1.0"}, {"scalar", "float"}};
  return result;
}

std::string difference_with(const Hello& mine, Hello theirs) { return difference(mine, theirs); }

}  // namespace

TEST_SUITE("hello") {
  TEST_CASE("a hello goes and comes back") {
    const Hello sent = hello(2, 0);
    const std::string bytes = sent.encode();
    Hello back;
    CHECK(Hello::wanted(bytes) == bytes.size());
    REQUIRE(Hello::decode(bytes, back));
    CHECK(back.version == sent.version);
    CHECK(back.channel == sent.channel);
    CHECK(back.lane == sent.lane);
    CHECK(back.from == 2);
    CHECK(back.to == 0);
    CHECK(back.incarnation == sent.incarnation);
    CHECK(back.authentication == sent.authentication);
    CHECK(back.nonce == sent.nonce);
    CHECK(back.addresses == sent.addresses);
    CHECK(back.properties == sent.properties);
    CHECK(difference(hello(0, 2), back).empty());
  }

  TEST_CASE("what a peer has sent is shown without control characters, and not at any length") {
    const Hello mine = hello(0, 1);
    Hello theirs = hello(1, 0);
    theirs.addresses[2] = "x\n\x1b[2J\x7f";
    CHECK(difference(mine, theirs) == "has another cluster: worker 2 x??[2J?, this worker has c:3");
    theirs = hello(1, 0);
    theirs.properties[1].second = std::string(5000, 'y');
    CHECK(difference(mine, theirs) ==
          "has scalar " + std::string(200, 'y') + "..., this worker has float");
    theirs = hello(1, 0);
    theirs.properties.emplace_back(std::string(5000, '\0'), "z");
    CHECK(difference(mine, theirs) ==
          "has " + std::string(200, '?') + "... z, this worker has none");
  }

  TEST_CASE("each difference has a name, on both sides") {
    const Hello mine = hello(0, 1);
    Hello theirs = hello(1, 0);

    theirs.version = 8;
    CHECK(difference_with(mine, theirs) == "has protocol version 8, this worker has 1");
    theirs = hello(1, 0);
    theirs.addresses.push_back("d:4");
    CHECK(difference_with(mine, theirs) == "has world size 4, this worker has 3");
    CHECK(difference_with(theirs, mine) == "has world size 3, this worker has 4");
    theirs = hello(1, 0);
    theirs.addresses[2] = "x:3";
    CHECK(difference_with(mine, theirs) ==
          "has another cluster: worker 2 x:3, this worker has c:3");
    theirs = hello(1, 2);
    CHECK(difference_with(mine, theirs) == "takes this worker for worker 2, but it is worker 0");
    theirs = hello(0, 0);
    CHECK(difference_with(mine, theirs) ==
          "is worker 0, as this process is: two processes with one place in the cluster");
    theirs = hello(1, 0);
    theirs.properties[1].second = "double";
    CHECK(difference_with(mine, theirs) == "has scalar double, this worker has float");
    theirs.properties.pop_back();
    CHECK(difference_with(mine, theirs) == "has scalar none, this worker has float");
    CHECK(difference_with(theirs, mine) == "has scalar float, this worker has none");
    theirs = hello(1, 0);
    theirs.authentication = Hello::Authentication::none;
    CHECK(difference_with(mine, theirs) ==
          "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one");
    CHECK(difference_with(theirs, mine) ==
          "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none");
  }

  TEST_CASE("a bare hello goes and comes back, and tells nothing about the cluster") {
    Hello sent;
    sent.from = 7;
    sent.to = 3;
    sent.authentication = Hello::Authentication::refused;
    sent.nonce = std::string(nonce_bytes, 'x');
    Hello back;
    REQUIRE(Hello::decode(sent.encode(), back));
    CHECK(back.is_bare());
    CHECK(back.from == 7);
    CHECK(back.to == 3);
    CHECK(back.authentication == sent.authentication);
    CHECK(back.nonce == sent.nonce);
    CHECK_FALSE(hello(1, 0).is_bare());
  }

  TEST_CASE("on connections for control, the last connection for data must be the same") {
    Hello mine = hello(0, 1), theirs = hello(1, 0);
    theirs.lane = 1;
    CHECK(difference(mine, theirs).empty());  // data: the callee takes the caller's
    mine.channel = theirs.channel = Hello::Channel::control;
    mine.lane = 3;
    CHECK(difference(mine, theirs) == "has CommunicationOptions::connections 2, this worker has 4");
    CHECK(difference(theirs, mine) == "has CommunicationOptions::connections 4, this worker has 2");
  }

  TEST_CASE("hellos of another version are read to their end") {
    // 40 bytes and as many as the payload's length says: the reader waits for no byte that does not
    // come.
    std::string bytes = hello(1, 0).encode().substr(0, Hello::prefix_bytes) + "abc";
    bytes[8] = 2;
    put_number<4>(reinterpret_cast<std::byte*>(&bytes[12]), 3);
    CHECK(Hello::wanted(bytes) == bytes.size());
    Hello back;
    REQUIRE(Hello::decode(bytes, back));
    CHECK(back.version == 2);
  }

  TEST_CASE("another version is recognised whatever follows its first fields") {
    Hello other = hello(1, 0);
    other.version = 9;
    std::string bytes = other.encode();
    for (std::size_t i = 16; i < bytes.size(); ++i) bytes[i] = '\xFF';
    Hello back;
    REQUIRE(Hello::decode(bytes, back));
    CHECK(back.version == 9);
  }

  TEST_CASE("strangers are noticed at the first wrong byte") {
    CHECK_FALSE(Hello::may_begin("G"));
    CHECK_FALSE(Hello::may_begin("GET / HTTP/1.1\r\n"));
    CHECK(Hello::may_begin("LOCK"));
    CHECK_FALSE(Hello::may_begin("LOCKED"));
    CHECK_FALSE(Hello::may_begin(std::string(100, '\0')));
  }

  TEST_CASE("a length of 1 GiB is refused before memory is taken") {
    std::string bytes = hello(1, 0).encode();
    bytes[15] = 0x40;
    CHECK_FALSE(Hello::may_begin(std::string_view(bytes).substr(0, Hello::prefix_bytes)));
  }

  TEST_CASE("a worker reads hellos of four times its own length, and not of 1 MiB") {
    Hello mine = hello(0, 1);
    CHECK(mine.longest_to_read() == 16384);
    mine.addresses.assign(1000, "worker-0.example:2222");
    const std::size_t own = mine.encode().size() - Hello::prefix_bytes;
    CHECK(mine.longest_to_read() == 4 * own);
    std::string head = mine.encode().substr(0, Hello::prefix_bytes);
    put_number<4>(reinterpret_cast<std::byte*>(&head[12]), 4 * own);
    CHECK(Hello::may_begin(head, mine.longest_to_read()));
    put_number<4>(reinterpret_cast<std::byte*>(&head[12]), 4 * own + 1);
    CHECK_FALSE(Hello::may_begin(head, mine.longest_to_read()));
    mine.addresses.assign(100'000, "worker-0.example:2222");
    CHECK(mine.longest_to_read() == Hello::longest_payload);
  }

  TEST_CASE("malformed hellos of the right length are refused, and nothing is read out of bounds") {
    const std::string good = hello(1, 0).encode();
    Hello back;
    for (std::size_t length = 0; length < good.size(); ++length)
      CHECK_FALSE(Hello::decode(good.substr(0, length), back));
    RandomStream random(RandomKey(1));
    int accepted = 0;
    for (int round = 0; round < 20'000; ++round) {
      std::string bytes = good;
      for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes)
        bytes[8 + random.below(bytes.size() - 8)] = static_cast<char>(random());
      if (!Hello::may_begin(bytes) || Hello::wanted(bytes) != bytes.size()) continue;
      accepted += Hello::decode(bytes, back);
    }
    CHECK(accepted > 0);
    CHECK(accepted < 20'000);
  }
}
