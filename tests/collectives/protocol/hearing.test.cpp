#include "lockstep/collectives/protocol/hearing.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

using namespace lockstep;
using namespace lockstep::detail;
using Kind = Hearing::Kind;
using Process = Hearing::Process;

namespace {

constexpr Hearing heard{Kind::heard}, left{Kind::left}, silent{Kind::silent, 30'000}, unanswered{};

}  // namespace

TEST_SUITE("hearing") {
  TEST_CASE("text and back") {
    const Ballot ballot{heard,
                        left,
                        {Kind::broken, ECONNRESET, Process::ended},
                        silent,
                        {Kind::closed, 0, Process::lives},
                        unanswered,
                        {Kind::data_broken, 5},
                        {Kind::closed, 0, Process::refused},
                        {Kind::narrow}};
    const std::string text = encode_ballot(ballot);
    CHECK(text == "hlb-104s30000c+ud5c!n");
    CHECK(decode_ballot(text, 9) == ballot);
  }

  TEST_CASE("what is no ballot is refused") {
    for (const char* text : {"", "hh", "hhhh", "hhx", "hh-", "h+-h", "hhs99999999999", "hhs1 ",
                             "hh\x80", "hu3", "hu-2", "hu0", "hu99999999"}) {
      CAPTURE(text);
      CHECK_FALSE(decode_ballot(text, 3));
    }
    CHECK(decode_ballot("hh-h", 3));
  }

  TEST_CASE("of many ranks, most are those of which nothing is known: they are counted") {
    Ballot ballot(1000);
    ballot[3] = heard;
    ballot[5] = {Kind::closed, 0, Process::ended};
    ballot[999] = silent;
    CHECK(encode_ballot(ballot) == "u3huc-u993s30000");
    CHECK(decode_ballot("u3huc-u993s30000", 1000) == ballot);
    CHECK_FALSE(decode_ballot("u3huc-u993s30000", 999));
    CHECK_FALSE(decode_ballot("u3huc-u993s30000", 1001));
    CHECK(decode_ballot(encode_ballot(Ballot(5)), 5) == Ballot(5));
  }
}
