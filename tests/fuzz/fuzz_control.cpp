// libFuzzer: what a peer sends on its control connection, during start-up and afterwards. The first
// byte is the size of the pieces in which the rest arrives; that must make no difference.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"

using namespace lockstep;
using namespace lockstep::detail;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

void add(std::string& sent, int to, const ControlFrame& frame, std::string_view text) {
  const FrameBytes bytes = frame.encode();
  ControlFrame back;
  demand(ControlFrame::decode(bytes, back) && frame.length == text.size());
  sent += static_cast<char>(to);
  sent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  sent += text;
}

template <class F>
void for_pieces(std::string_view bytes, std::size_t piece, F f) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    if (!f(bytes.substr(0, piece))) return;
}

/// What rank 0 of three says and believes when rank 1 has sent the bytes after the start-up.
std::string after_startup(std::string_view bytes, std::size_t piece) {
  std::string result;
  const ActivityBoard board;
  ControlChannel channel(0, 3, board, [&](int to, const ControlFrame& f, std::string_view text) {
    add(result, to, f, text);
  });
  FailureConsensus consensus(channel, {"a", "b", "c"});
  channel.set_on_vote(
      [&](int from, const ControlInbox::Message& message, FailureConsensus::Clock::time_point now) {
        consensus.take(from, message, now);
      });
  bool good = true;
  for_pieces(bytes, piece, [&](std::string_view part) { return good = channel.take(1, part, {}); });
  const ControlChannel::Peer& peer = channel.peer(1);
  for (const bool flag :
       {good, peer.goodbye, peer.farewell, peer.answered, channel.reported().has_value()})
    result += flag ? '1' : '0';
  result += std::to_string(peer.waits_for) + peer.activity;
  channel.peer(2).gone = true;
  consensus.lose(2, 0, {});
  for (const auto& now :
       {FailureConsensus::Clock::time_point{},
        FailureConsensus::Clock::time_point(2 * FailureConsensus::time_to_answer)})
    if (const auto verdict = consensus.advance(now)) {
      demand(verdict->failed_rank >= -1 && verdict->failed_rank < 3 && !verdict->reason.empty());
      result += verdict->reason;
    }
  if (const auto& reported = channel.reported()) {
    demand(reported->failed_rank >= -1 && reported->failed_rank < 3 &&
           reported->reason.size() <= ControlFrame::longest);
    channel.report(*reported);
  }
  return result;
}

/// The same, during start-up.
std::string during_startup(std::string_view bytes, std::size_t piece) {
  std::string result;
  StartupRoster roster(WorkerNames({"a:1", "b:2", "c:3"}), 0);
  StartupAgreement agreement(roster, [&](int to, const ControlFrame& f, std::string_view text) {
    add(result, to, f, text);
  });
  for (const int other : {1, 2}) {
    roster.peer(other).connected = true;
    agreement.begin(other, {});
  }
  const FrameBytes ready =
      StartupAgreement::about(ControlFrame::Type::ready, roster.processes()).encode();
  (void)agreement.take(2, {reinterpret_cast<const char*>(ready.data()), ready.size()}, {});
  for_pieces(bytes, piece, [&](std::string_view part) {
    const bool more = agreement.take(1, part, {}) == StartupAgreement::Taken::all;
    if (roster.peer(1).ready) agreement.consider();
    return more && !agreement.is_reached();
  });
  if (const auto& aborted = agreement.aborted()) {
    demand(aborted->failed_rank >= 0 && aborted->failed_rank < 3 && !aborted->reason.empty());
    result += aborted->reason;
  }
  demand(roster.first_missing({}) >= -1 && roster.first_missing({}) < 3);
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = 1 + data[0];
  demand(after_startup(bytes, piece) == after_startup(bytes, size));
  (void)during_startup(bytes, piece);
  return 0;
}
