// Keras's progress bar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a progress line shows beside the figures.
struct Progress {
  std::int64_t step = 0;                    ///< steps done in this epoch
  std::optional<std::int64_t> target = {};  ///< steps of the epoch, if known
  double seconds = 0;                       ///< since the epoch began
  double seconds_per_step = 0;
  bool finished = false;  ///< the epoch is over, whatever the step
};

/// The text of tf.keras.utils.Progbar, without line end:
///   " 7/70 [==>...........................] - ETA: 12s - loss: 2.2780"            running
///   "70/70 [==============================] - 3s 42ms/step - loss: 2.2780"        finished
///   "      7/Unknown - 1s 42ms/step - loss: 2.2780"                               target unknown
[[nodiscard]] std::string render_progress_bar(const Progress& progress, const Logs& logs);

/// The text of verbose 2: "70/70 - 3s - loss: 2.2780 - 3s/epoch - 42ms/step".
[[nodiscard]] std::string render_epoch_line(const Progress& progress, const Logs& logs);

/// Where a ProgressBar writes, and its clock.
struct ProgressBarOutput {
  std::FILE* file = stdout;
  std::optional<bool> terminal;   ///< default: whether `file` is one
  double (*seconds)() = nullptr;  ///< default: std::chrono::steady_clock
};

/// Shows the progress of fit, as Keras 2 does:
///   verbose 0  nothing
///   verbose 1  a bar that is redrawn at most every 0.05 s, and a last time at the end of the epoch
///              with all figures. Where the output is no terminal, only the last is written.
///   verbose 2  one line at the end of an epoch
/// A line "Epoch 1/3" comes first when there is more than one epoch. When the data give no number
/// of steps, that of the epoch before is shown.
///
/// Unlike Keras, an epoch that ends early shows the steps that were done and not the target.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
class ProgressBar {
 public:
  explicit ProgressBar(int verbose, int epochs = 1, const ProgressBarOutput& output = {});

  /// Ends the line that is on the screen when an exception cuts the epoch short.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `epoch` counts from 0.
  void begin_epoch(int epoch, std::optional<std::int64_t> target);

  /// `steps_done` counts from 1; in an epoch that is resumed it starts above 1.
  void update(std::int64_t steps_done, const Logs& logs);

  void end_epoch(const Logs& logs);

 private:
  [[nodiscard]] Progress progress_at(double now) const;
  void write(const std::string& text);

  int verbose_;
  int epochs_;
  ProgressBarOutput output_;
  std::optional<std::int64_t> target_;
  bool target_is_known_ = false;  // else it is the number of steps of the epoch before
  std::int64_t step_ = 0;
  std::int64_t first_step_ = 0;
  double began_ = 0;
  double first_step_at_ = 0;
  double drawn_at_ = 0;
  std::size_t width_on_screen_ = 0;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/progress_bar.ipp"
#endif
