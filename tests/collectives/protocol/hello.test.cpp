#include "lockstep/collectives/protocol/handshake.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/random.hpp"

using namespace lockstep;
using namespace lockstep::detail;

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
    CHECK(difference_with(mine, theirs) == "has protocol version 8, this worker has 7");
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

  TEST_CASE("hellos of one version earlier or later are read to their end") {
    // 40 bytes and as many as the payload's length says: the reader waits for no byte that does not
    // come.
    std::string bytes = hello(1, 0).encode().substr(0, Hello::prefix_bytes) + "abc";
    bytes[8] = 1;
    put_number<4>(reinterpret_cast<std::byte*>(&bytes[12]), 3);
    CHECK(Hello::wanted(bytes) == bytes.size());
    Hello back;
    REQUIRE(Hello::decode(bytes, back));
    CHECK(back.version == 1);
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
