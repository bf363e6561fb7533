#include "lockstep/collectives/protocol/frame.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace lockstep::detail;
using namespace lockstep;
using lockstep::detail::Stripes;

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

namespace {

std::string frame_text(const ControlFrame& frame, const std::string& text = {}) {
  const FrameBytes bytes = frame.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

}  // namespace

TEST_SUITE("control inbox") {
  const ControlFrame probe{.type = ControlFrame::Type::probe};
  const ControlFrame abort{
      .type = ControlFrame::Type::abort, .value = 2, .extra = 138, .length = 4};

  TEST_CASE("messages come out in order, whatever the pieces in which they came") {
    const std::string stream = frame_text(probe) + frame_text(abort, "text") + frame_text(probe);
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
      CAPTURE(piece);
      ControlInbox inbox;
      std::vector<ControlFrame> frames;
      std::string text;
      for (std::size_t i = 0; i < stream.size(); i += piece) {
        inbox.append(stream.substr(i, piece));
        for (auto message = inbox.front(); message; message = inbox.front()) {
          frames.push_back(message->frame);
          text += message->text;
          inbox.pop();
        }
      }
      CHECK(frames == std::vector<ControlFrame>{probe, abort, probe});
      CHECK(text == "text");
      CHECK_FALSE(inbox.is_broken());
    }
  }

  TEST_CASE("a message stays until it is taken away") {
    ControlInbox inbox;
    CHECK_FALSE(inbox.front());
    inbox.append(frame_text(abort, "tex"));
    CHECK_FALSE(inbox.front());
    inbox.append("t");
    CHECK(inbox.front()->text == "text");
    CHECK(inbox.front()->text == "text");
    inbox.pop();
    CHECK_FALSE(inbox.front());
  }

  TEST_CASE("what is no frame is noticed when it could be one, and what came before can be read") {
    ControlInbox inbox;
    inbox.append(frame_text(probe) + "GET / HTTP/1.1");
    CHECK_FALSE(inbox.is_broken());
    CHECK(inbox.front());
    inbox.pop();
    CHECK_FALSE(inbox.is_broken());
    inbox.append("\r\n");
    CHECK(inbox.is_broken());
    CHECK_FALSE(inbox.front());
  }

  TEST_CASE("a text that is longer than any is refused before it comes") {
    ControlFrame longest = abort;
    longest.length = ControlFrame::longest;
    ControlInbox good, bad;
    good.append(frame_text(longest));
    CHECK_FALSE(good.is_broken());
    ++longest.length;
    bad.append(frame_text(longest));
    CHECK(bad.is_broken());
  }
}

TEST_SUITE("stripes") {
  constexpr std::size_t stripe = Stripes::stripe_bytes;

  TEST_CASE("one connection carries the whole message at once") {
    constexpr Stripes stripes(1);
    for (const std::uint64_t position :
         {std::uint64_t{0}, std::uint64_t{stripe}, std::uint64_t{1} << 40}) {
      CHECK(stripes.at(position).connection == 0);
      CHECK(stripes.at(position).bytes > std::size_t{1} << 50);
    }
  }

  TEST_CASE("several take turns, and a place ends with its stripe") {
    constexpr Stripes stripes(3);
    const std::vector<std::size_t> turns{0, 1, 2, 0, 1};
    for (std::size_t i = 0; i < turns.size(); ++i) {
      CHECK(stripes.at(i * stripe).connection == turns[i]);
      CHECK(stripes.at(i * stripe).bytes == stripe);
      CHECK(stripes.at(i * stripe + 1).connection == turns[i]);
      CHECK(stripes.at(i * stripe + 1).bytes == stripe - 1);
      CHECK(stripes.at((i + 1) * stripe - 1).connection == turns[i]);
      CHECK(stripes.at((i + 1) * stripe - 1).bytes == 1);
    }
  }
}
