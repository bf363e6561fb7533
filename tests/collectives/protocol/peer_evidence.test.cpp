#include "lockstep/collectives/protocol/peer_evidence.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

using namespace lockstep;
using namespace lockstep::detail;
using Kind = PeerEvidence::Kind;
using Process = PeerEvidence::Process;

namespace {

constexpr PeerEvidence heard{Kind::heard}, left{Kind::left}, silent{Kind::silent, 30'000},
    unanswered{};

}  // namespace

TEST_SUITE("peer evidence") {
  TEST_CASE("text and back") {
    const Vote vote{heard,
                    left,
                    {Kind::broken, ECONNRESET, Process::ended},
                    silent,
                    {Kind::closed, 0, Process::lives},
                    unanswered,
                    {Kind::data_broken, 5},
                    {Kind::closed, 0, Process::refused},
                    {Kind::narrow}};
    const std::string text = encode_vote(vote);
    CHECK(text == "hlb-104s30000c+ud5c!n");
    CHECK(decode_vote(text, 9) == vote);
  }

  TEST_CASE("what is no vote is refused") {
    for (const char* text : {"", "hh", "hhhh", "hhx", "hh-", "h+-h", "hhs99999999999", "hhs1 ",
                             "hh\x80", "hu3", "hu-2", "hu0", "hu99999999"}) {
      CAPTURE(text);
      CHECK_FALSE(decode_vote(text, 3));
    }
    CHECK(decode_vote("hh-h", 3));
  }

  TEST_CASE("of many ranks, most are those of which nothing is known: they are counted") {
    Vote vote(1000);
    vote[3] = heard;
    vote[5] = {Kind::closed, 0, Process::ended};
    vote[999] = silent;
    CHECK(encode_vote(vote) == "u3huc-u993s30000");
    CHECK(decode_vote("u3huc-u993s30000", 1000) == vote);
    CHECK_FALSE(decode_vote("u3huc-u993s30000", 999));
    CHECK_FALSE(decode_vote("u3huc-u993s30000", 1001));
    CHECK(decode_vote(encode_vote(Vote(5)), 5) == Vote(5));
  }
}
