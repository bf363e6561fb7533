#include "lockstep/collectives/protocol/control_inbox.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace lockstep::detail;

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
