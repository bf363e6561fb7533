#pragma once

#include <utility>

#include "lockstep/core/trace.hpp"
#include "lockstep/core/trace_span.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void TraceSpan::begin() noexcept {
  outside_ = std::exchange(trace_->inside_, {}).count();
  begin_ = Trace::Clock::now().time_since_epoch().count();
}

LOCKSTEP_INLINE void TraceSpan::end() noexcept {
  const auto end = Trace::Clock::now();
  const Trace::Clock::time_point begin{Trace::Clock::duration{begin_}};
  trace_->add(part_, layer_, begin, end, trace_->inside_);
  trace_->inside_ = Trace::Clock::duration{outside_} + (end - begin);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
