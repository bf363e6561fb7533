#include "lockstep/collectives/frame.hpp"

#include <doctest/doctest.h>

using namespace lockstep;
using namespace lockstep::detail;

TEST_SUITE("frame") {
  TEST_CASE("data frames go and come back") {
    const DataFrame frame{Operation::all_gather, 0xFFFFFFFE, std::uint64_t{3} << 40};
    DataFrame back;
    CHECK(DataFrame::decode(frame.encode(), back));
    CHECK(back == frame);
    CHECK(frame.encode()[0] == std::byte{'L'});
  }

  TEST_CASE("control frames go and come back") {
    const ControlFrame frame{.type = ControlFrame::Type::abort, .value = -1, .extra = 138, .length = 17};
    ControlFrame back;
    CHECK(ControlFrame::decode(frame.encode(), back));
    CHECK(back == frame);
  }

  TEST_CASE("what is no frame is refused") {
    DataFrame data;
    ControlFrame control;
    CHECK_FALSE(DataFrame::decode({}, data));
    CHECK_FALSE(ControlFrame::decode({}, control));
    CHECK_FALSE(ControlFrame::decode(DataFrame{}.encode(), control));
    CHECK_FALSE(DataFrame::decode(ControlFrame{}.encode(), data));
    for (const int type : {0, 8, 255}) {
      ControlFrame frame;
      frame.type = static_cast<ControlFrame::Type>(type);
      CHECK_FALSE(ControlFrame::decode(frame.encode(), control));
    }
    ControlFrame longest;
    longest.length = ControlFrame::longest;
    CHECK(ControlFrame::decode(longest.encode(), control));
    longest.length = ControlFrame::longest + 1;
    CHECK_FALSE(ControlFrame::decode(longest.encode(), control));
  }
}
