// libFuzzer: the frames that a peer sends after the handshake. The input is a stream of control
// frames with their texts, and each 20 bytes of it are a data frame.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/protocol/frame.hpp"

using namespace lockstep::detail;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

template <class Bytes>
Bytes first_frame(std::span<const std::uint8_t> bytes) {
  Bytes frame;
  std::memcpy(frame.data(), bytes.data(), frame.size());
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (std::span rest(data, size); rest.size() >= DataFrame::size;
       rest = rest.subspan(DataFrame::size)) {
    DataFrame frame;
    auto bytes = first_frame<DataFrame::Bytes>(rest);
    put_number<4>(&bytes[16], DataFrame::checksum(bytes));  // a fuzzer does not find it
    if (!DataFrame::decode(bytes, frame)) continue;
    demand(frame.encode() == bytes);
    demand(!std::string_view(lockstep::to_string(frame.operation)).empty());
  }
  for (std::span rest(data, size); rest.size() >= frame_bytes;) {
    ControlFrame frame;
    const auto bytes = first_frame<FrameBytes>(rest);
    if (!ControlFrame::decode(bytes, frame)) break;
    demand(frame.encode() == bytes);
    demand(frame.length <= ControlFrame::longest);
    rest = rest.subspan(frame_bytes);
    if (frame.length > rest.size()) break;
    rest = rest.subspan(frame.length);
  }
  return 0;
}
