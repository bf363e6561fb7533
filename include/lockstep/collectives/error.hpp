// What a collective throws when a rank is lost.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What is known about the failure that ended a collective operation. The ranks, `address`,
/// `reason` and `code` describe the cause and are the same on every rank that hears of it; the rest
/// is this rank's view.
struct CollectiveFailure {
  int failed_rank = -1;     ///< the worker that failed first, by its rank; -1: none can be blamed
  int worker = -1;          ///< its place in the configured cluster, where that is another number
  int replica = -1;         ///< the thread that failed: of that worker, or of this process if alone
  std::string address{};    ///< its "host:port"; empty for a thread
  std::string operation{};  ///< what this rank was doing: "all_reduce", "start-up", ...
  std::int64_t step = -1;   ///< in training: updates that this rank had made; else -1
  std::uint64_t bytes_done = 0;         ///< bytes that this rank had received in the operation
  double seconds = 0;                   ///< time that this rank had spent in the operation
  std::string reason{};                 ///< "closed the connection", "std::bad_alloc", ...
  ExitCode code = ExitCode::lost_peer;  ///< below 128: running again would not help
};

/// A rank died, hung, misbehaved, or reported an error. The buffers of the operation are
/// undefined and the collective cannot be used again. Exit code 138 (run again), or that of the
/// rank that reported a permanent error.
class CollectiveError : public Error {
 public:
  explicit CollectiveError(CollectiveFailure failure)
      : Error(message(failure), failure.code), failure_(std::move(failure)) {}

  [[nodiscard]] const CollectiveFailure& failure() const noexcept { return failure_; }
  [[nodiscard]] int failed_rank() const noexcept { return failure_.failed_rank; }

 private:
  [[gnu::cold]] static std::string message(const CollectiveFailure& failure) {
    std::string culprit;
    if (failure.failed_rank >= 0)
      culprit = concat({"worker ", failure.worker < 0 ? failure.failed_rank : failure.worker});
    if (!culprit.empty() && !failure.address.empty())
      culprit += concat({" (", failure.address, ")"});
    if (failure.replica >= 0)
      culprit += concat({culprit.empty() ? "" : ", ", "replica ", failure.replica});
    if (!culprit.empty()) culprit += " failed: ";
    const auto tenths = std::llround(failure.seconds * 10);
    const std::string step = failure.step < 0 ? "" : concat({" in step ", failure.step + 1});
    return concat({failure.operation.empty() ? "collective operation" : failure.operation.c_str(),
                   step, ": ", culprit, failure.reason, " [after ", tenths / 10, ".", tenths % 10,
                   " s and ", failure.bytes_done, " received bytes]"});
  }

  CollectiveFailure failure_;
};

namespace detail {

/// The exit code that a peer names for its failure; lost_peer for anything that is no such code.
[[nodiscard]] constexpr ExitCode failure_code(int named) noexcept {
  for (const ExitCode code :
       {ExitCode::failure, ExitCode::usage, ExitCode::interrupted, ExitCode::terminated})
    if (static_cast<int>(code) == named) return code;
  return ExitCode::lost_peer;
}

/// Aborts with the exit code of the cause, where `target` (a Collective or a Transport) takes one.
template <class C>
void abort(C& target, std::string_view reason, ExitCode code) noexcept {
  if constexpr (requires { target.abort(reason, code); })
    target.abort(reason, code);
  else
    target.abort(reason);
}

}  // namespace detail

}}  // namespace lockstep
