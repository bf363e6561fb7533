// The files that tests/fuzz/fuzz_control.cpp starts from. With LOCKSTEP_WRITE_SEEDS set, they are
// written.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "support/messages.hpp"
#include "support/source_path.hpp"

using namespace lockstep::detail;
using Type = ControlFrame::Type;

namespace {

std::string message(Type type, int value = -1, int extra = 0, const std::string& text = {}) {
  const FrameBytes bytes =
      ControlFrame{type, value, extra, static_cast<std::uint32_t>(text.size())}.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

void check_seed(const std::string& name, const std::string& bytes) {
  const std::string path = lockstep_test::source_path("tests/fuzz/corpus/control/" + name);
  if (std::getenv("LOCKSTEP_WRITE_SEEDS") != nullptr)
    std::ofstream(path, std::ios::binary) << bytes;
  CAPTURE(path);
  CHECK(lockstep_test::file_text(path) == bytes);
}

}  // namespace

TEST_CASE("fuzz seeds: what peers say on a control connection") {
  const std::string probe = message(Type::probe);
  const ControlFrame ready = StartupAgreement::about(
      Type::ready, StartupRoster(WorkerNames({"a:1", "b:2", "c:3"}), 0).processes());
  check_seed("startup", char(100) + probe + message(Type::waiting, 2) +
                            message(ready.type, ready.value, ready.extra) + probe);
  check_seed("report", char(6) + probe + message(Type::abort, 2, 138, "closed the connection") +
                           message(Type::abort, 1, 1, "no more memory"));
  check_seed("end", char(15) + message(Type::waiting, 0) + message(Type::goodbye) +
                        message(Type::farewell) + probe.substr(0, 7));
}
