#include "lockstep/collectives/protocol/frame.hpp"

#include <doctest/doctest.h>

#include <algorithm>

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

  TEST_CASE("a data frame with any bit changed is none") {
    const DataFrame frame{Operation::all_reduce, 7, 4096};
    for (std::size_t bit = 0; bit < 8 * DataFrame::size; ++bit) {
      DataFrame::Bytes bytes = frame.encode();
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      DataFrame back;
      CHECK_FALSE(DataFrame::decode(bytes, back));
    }
  }

  TEST_CASE("control frames go and come back") {
    const ControlFrame frame{
        .type = ControlFrame::Type::abort, .value = -1, .extra = 138, .length = 17};
    ControlFrame back;
    CHECK(ControlFrame::decode(frame.encode(), back));
    CHECK(back == frame);
  }

  TEST_CASE("what is no frame is refused") {
    DataFrame data;
    ControlFrame control;
    CHECK_FALSE(DataFrame::decode({}, data));
    CHECK_FALSE(ControlFrame::decode({}, control));
    FrameBytes as_control;
    std::copy_n(DataFrame{}.encode().begin(), frame_bytes, as_control.begin());
    CHECK_FALSE(ControlFrame::decode(as_control, control));
    DataFrame::Bytes as_data{};
    std::copy_n(ControlFrame{}.encode().begin(), frame_bytes, as_data.begin());
    put_number<4>(&as_data[frame_bytes], DataFrame::checksum(as_data));
    CHECK_FALSE(DataFrame::decode(as_data, data));
    for (const int type : {0, 11, 255}) {
      ControlFrame frame;
      frame.type = static_cast<ControlFrame::Type>(type);
      CHECK_FALSE(ControlFrame::decode(frame.encode(), control));
    }
    ControlFrame longest;
    longest.length = ControlFrame::longest;
    CHECK(ControlFrame::decode(longest.encode(), control));
    longest.length = ControlFrame::longest + 1;
    CHECK_FALSE(ControlFrame::decode(longest.encode(), control));
    longest.type = ControlFrame::Type::relayed;  // holds one of those
    longest.length = ControlFrame::longest + frame_bytes;
    CHECK(ControlFrame::decode(longest.encode(), control));
    ++longest.length;
    CHECK_FALSE(ControlFrame::decode(longest.encode(), control));
  }
}
