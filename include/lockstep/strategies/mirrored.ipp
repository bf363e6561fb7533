#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/strategies/mirrored.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : group_(ReplicaThreads::count(options.replicas), options.communication_options),
      threads_(group_.size(), 0, options.pinning) {
  replicas_.reserve(static_cast<std::size_t>(group_.size()));
  for (int i = 0; i < group_.size(); ++i)
    replicas_.emplace_back(group_.member(i), i, group_.size(), &threads_);
}

LOCKSTEP_INLINE void MirroredStrategy::run_each(FunctionRef<void(Replica&)> f) {
  const auto call = [&](int i) { f(replicas_[static_cast<std::size_t>(i)]); };
  const auto abort = [&](int i, std::string_view what, ExitCode code) {
    group_.member(i).abort(what, code);
  };
  threads_.run(call, abort, [&] { group_.reset(); });
}

}  // namespace lockstep::inline LOCKSTEP_ABI
