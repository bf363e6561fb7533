#pragma once

#include <unistd.h>

#include <chrono>
#include <cmath>

#include "lockstep/callbacks/progress_bar.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

LOCKSTEP_INLINE std::string with_digits(double value, NumberForm form, int digits) {
  return std::isnan(value) ? "nan" : number_text(value, form, digits);  // of either sign
}

LOCKSTEP_INLINE std::string figures(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    const bool tiny = !(std::abs(value) > 1e-3);
    text += " - " + name + ": ";
    text += with_digits(value, tiny ? NumberForm::scientific : NumberForm::fixed, 4);
  }
  return text;
}

LOCKSTEP_INLINE std::string whole_seconds(double seconds) {
  return with_digits(seconds, NumberForm::fixed, 0) + "s";
}

LOCKSTEP_INLINE std::string time_per(double seconds, const char* unit) {
  const std::string per = std::string("/") + unit;
  if (seconds >= 1 || seconds == 0) return whole_seconds(seconds) + per;
  if (seconds >= 1e-3) return with_digits(seconds * 1e3, NumberForm::fixed, 0) + "ms" + per;
  return with_digits(seconds * 1e6, NumberForm::fixed, 0) + "us" + per;
}

/// "12s", "1:02", "1:01:05"
LOCKSTEP_INLINE std::string time_left(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto two_digits = [](std::int64_t n) { return (n < 10 ? ":0" : ":") + std::to_string(n); };
  if (seconds > 3600)
    return std::to_string(whole / 3600) + two_digits(whole % 3600 / 60) + two_digits(whole % 60);
  if (seconds > 60) return std::to_string(whole / 60) + two_digits(whole % 60);
  return std::to_string(whole) + "s";
}

/// " 7/70"
LOCKSTEP_INLINE std::string step_of_target(std::int64_t step, std::int64_t target) {
  std::string done = std::to_string(step);
  const std::string all = std::to_string(target);
  if (done.size() < all.size()) done.insert(0, all.size() - done.size(), ' ');
  return done + "/" + all;
}

LOCKSTEP_INLINE double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace detail

LOCKSTEP_INLINE std::string render_progress_bar(const Progress& progress, const Logs& logs) {
  constexpr int width = 30;
  std::string text;
  if (progress.target) {
    const std::int64_t target = *progress.target;
    const double done = static_cast<double>(progress.step) / static_cast<double>(target);
    const std::int64_t filled =
        progress.step >= target ? width : static_cast<std::int64_t>(width * done);
    std::string bar(width, '.');
    if (filled > 0) {
      bar.replace(0, static_cast<std::size_t>(filled), static_cast<std::size_t>(filled), '=');
      if (progress.step < target) bar[static_cast<std::size_t>(filled - 1)] = '>';
    }
    text = detail::step_of_target(progress.step, target) + " [" + bar + "]";
  } else {
    text = std::to_string(progress.step);
    if (text.size() < 7) text.insert(0, 7 - text.size(), ' ');
    text += "/Unknown";
  }
  if (progress.target && !progress.finished) {
    const auto steps_left = static_cast<double>(*progress.target - progress.step);
    text += " - ETA: " +
            detail::time_left(progress.seconds_per_step * (steps_left > 0 ? steps_left : 0));
  } else {
    text += " - " + detail::whole_seconds(progress.seconds) + " " +
            detail::time_per(progress.seconds_per_step, "step");
  }
  return text + detail::figures(logs);
}

LOCKSTEP_INLINE std::string render_epoch_line(const Progress& progress, const Logs& logs) {
  return detail::step_of_target(progress.step, progress.target.value_or(progress.step)) + " - " +
         detail::whole_seconds(progress.seconds) + detail::figures(logs) + " - " +
         detail::time_per(progress.seconds, "epoch") + " - " +
         detail::time_per(progress.seconds_per_step, "step");
}

LOCKSTEP_INLINE ProgressBar::ProgressBar(int verbose, int epochs, const ProgressBarOutput& output)
    : verbose_(verbose), epochs_(epochs), output_(output) {
  if (!output_.terminal) output_.terminal = ::isatty(::fileno(output_.file)) == 1;
  if (output_.seconds == nullptr) output_.seconds = &detail::steady_seconds;
}

LOCKSTEP_INLINE ProgressBar::~ProgressBar() {
  if (width_on_screen_ > 0) {
    std::fputc('\n', output_.file);
    std::fflush(output_.file);
  }
}

LOCKSTEP_INLINE void ProgressBar::begin_epoch(int epoch, std::optional<std::int64_t> target) {
  target_is_known_ = target.has_value();
  if (target) target_ = target;
  step_ = 0;
  first_step_ = 0;
  drawn_at_ = -1;
  began_ = output_.seconds();
  if (verbose_ != 0 && epochs_ > 1)
    write("Epoch " + std::to_string(epoch + 1) + "/" + std::to_string(epochs_) + "\n");
}

LOCKSTEP_INLINE void ProgressBar::update(std::int64_t steps_done, const Logs& logs) {
  constexpr double interval = 0.05;
  if (verbose_ == 0) return;
  const double now = output_.seconds();
  step_ = steps_done;
  if (first_step_ == 0) {
    first_step_ = steps_done;
    first_step_at_ = now;
  } else if (now - drawn_at_ < interval) {
    return;
  }
  drawn_at_ = now;
  if (verbose_ != 1 || !*output_.terminal) return;
  const std::string text = render_progress_bar(progress_at(now), logs);
  std::string blanks;
  if (text.size() < width_on_screen_) blanks.assign(width_on_screen_ - text.size(), ' ');
  width_on_screen_ = text.size();
  write("\r" + text + blanks);
}

LOCKSTEP_INLINE void ProgressBar::end_epoch(const Logs& logs) {
  if (verbose_ == 0) return;
  if (!target_is_known_) target_ = step_;
  Progress progress = progress_at(output_.seconds());
  progress.finished = true;
  if (verbose_ == 2) {
    progress.seconds_per_step =
        step_ > 0 ? progress.seconds / static_cast<double>(step_ - first_step_ + 1) : 0;
    write(render_epoch_line(progress, logs) + "\n");
    return;
  }
  std::string text = render_progress_bar(progress, logs);
  if (text.size() < width_on_screen_) text.append(width_on_screen_ - text.size(), ' ');
  width_on_screen_ = 0;
  write((*output_.terminal ? "\r" : "") + text + "\n");
}

// The first step is left out of the average: it warms up caches and connections.
LOCKSTEP_INLINE Progress ProgressBar::progress_at(double now) const {
  Progress progress{.step = step_, .target = target_, .seconds = now - began_};
  if (step_ > first_step_)
    progress.seconds_per_step = (now - first_step_at_) / static_cast<double>(step_ - first_step_);
  else if (step_ > 0)
    progress.seconds_per_step = progress.seconds;
  return progress;
}

LOCKSTEP_INLINE void ProgressBar::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), output_.file);
  std::fflush(output_.file);
}

}}  // namespace lockstep
