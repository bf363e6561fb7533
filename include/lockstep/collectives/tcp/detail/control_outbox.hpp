// What is said on the control connections, until the system takes it.
#pragma once

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Frames wait here until flush(), so that they leave in few pieces: with many ranks, one word that
/// comes leads to dozens. What the system does not take stays for the next time.
class ControlOutbox {
 public:
  ControlOutbox(std::deque<TcpLinks>& links, std::size_t ranks)
      : links_(links), unsent_(ranks), resets_(ranks) {}

  void add(int to, const ControlFrame& frame, std::string_view text) {
    std::string& unsent = unsent_[index(to)];
    if (unsent.size() > most) return;  // a peer that reads nothing any more is lost anyway
    if (unsent.empty()) waiting_.push_back(to);
    const FrameBytes bytes = frame.encode();
    unsent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    unsent += text;
  }

  /// Returns whether something is left.
  bool flush() noexcept {
    std::erase_if(waiting_, [this](int to) { return flush(to); });
    return !waiting_.empty();
  }
  /// Whether something is left for this rank.
  [[nodiscard]] bool is_full(int to) const noexcept { return !unsent_[index(to)].empty(); }

  /// The system reports a reset only once, here to the sender; the next read just finds the end.
  /// errno, or 0.
  [[nodiscard]] int reset_by(int rank) const noexcept { return resets_[index(rank)]; }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  bool flush(int to) noexcept {
    std::string& unsent = unsent_[index(to)];
    asio::error_code error;
    while (!unsent.empty() && !error)
      unsent.erase(0, links_[index(to)].control.write_some(asio::buffer(unsent), error));
    if (error == asio::error::would_block) return false;
    unsent.clear();
    if (error == asio::error::connection_reset) resets_[index(to)] = error.value();
    return true;
  }

  std::deque<TcpLinks>& links_;
  std::vector<std::string> unsent_;  // by rank
  std::vector<int> waiting_;         // the ranks for which there is something
  std::vector<int> resets_;          // by rank: errno of what could not be sent
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
