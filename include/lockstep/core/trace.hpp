// Where the time of training steps goes: a Trace, and the spans that it records.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Parts of a training step. Forward and backward are counted for each layer.
enum class TracePart : std::uint8_t {
  input,
  forward,
  loss,
  backward,
  collective,
  optimizer,
  callbacks
};

inline constexpr std::size_t trace_part_count = 7;

/// Records spans of time of one thread: their sums, and the first `max_events` one by one.
/// Recording allocates nothing.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    Clock::time_point begin;
    Clock::duration duration{};
    std::size_t layer = 0;
    TracePart part = TracePart::input;
  };

  /// `layers`: how many layers the flattened model has.
  Trace(std::size_t layers, std::size_t max_events);

  /// `layer` is 0 outside of layers. `inside`: the part of this time that other spans count.
  void add(TracePart part, std::size_t layer, Clock::time_point begin, Clock::time_point end,
           Clock::duration inside = {}) noexcept;

  [[nodiscard]] std::size_t layers() const noexcept { return layers_; }
  /// Since clear_totals.
  [[nodiscard]] Clock::duration total(TracePart part, std::size_t layer = 0) const noexcept {
    return totals_[static_cast<std::size_t>(part)][layer];
  }
  void clear_totals() noexcept {
    for (auto& sums : totals_) sums.assign(layers_, Clock::duration{});
  }

  /// In the order in which they ended.
  [[nodiscard]] std::span<const Event> events() const noexcept { return events_; }
  /// Events that came after the first max_events.
  [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }

 private:
  std::size_t layers_;
  std::size_t max_events_;
  std::array<std::vector<Clock::duration>, trace_part_count> totals_;
  std::vector<Event> events_;
  std::size_t left_out_ = 0;

  friend class TraceSpan;
  Clock::duration inside_{};  // of spans that have ended within the innermost open one
};

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

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/trace.ipp"
#endif
