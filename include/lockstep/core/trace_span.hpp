// A part of a training step whose time is recorded in a Trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace_part.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

class Trace;

/// Adds the time from its construction to its destruction, without that of spans within it; does
/// nothing without a trace.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, TracePart part, std::size_t layer = 0) noexcept
      : trace_(trace), layer_(layer), part_(part) {
    if (trace_ != nullptr) begin();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) end();
  }

 private:
  void begin() noexcept;
  void end() noexcept;

  Trace* trace_;
  std::size_t layer_;
  TracePart part_;
  std::int64_t begin_ = 0;    // in ticks of the trace's clock
  std::int64_t outside_ = 0;  // inside the span around this one, before it
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/trace_span.ipp"
#endif
