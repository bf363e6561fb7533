// TensorBoard: event files, which TensorBoard shows while training runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/extra/tensorboard/event_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct TensorBoardOptions {
  std::string log_dir = "logs";  ///< no other run's
  int histogram_freq = 0;        ///< histograms of the weights every so many epochs; 0: none
  bool write_graph = true;       ///< the layers (tab Graphs), and summary() (tab Text)
  bool write_images =
      false;  ///< with each histogram the weights as images, too (not above 4096 x 4096)
  bool write_steps_per_second = false;
  UpdateFrequency update_freq = UpdateFrequency::epoch;  ///< or every so many batches as well
  EventFile::Clock wall_time = nullptr;  ///< seconds since 1970; default: the system's clock
};

/// Writes what Keras's TensorBoard callback writes, for `tensorboard --logdir logs`:
///
/// | tag | folder | step |
/// |---|---|---|
/// | epoch_NAME: the figures of training | train | epoch, from 0 |
/// | epoch_NAME: those of validation | validation | epoch |
/// | epoch_learning_rate | train | epoch |
/// | epoch_steps_per_second, batch_steps_per_second | train | epoch; batch |
/// | batch_NAME: the averages of the epoch so far | train | batches of this fit, from 1 |
/// | evaluation_NAME_vs_iterations: each validation, and evaluate | validation | updates made |
/// | LAYER/VARIABLE/histogram, LAYER/VARIABLE/image | train | epoch |
/// | keras (the layers), model_summary | train | 0 |
///
/// Folders and files are made when first written to; each fit has files of its own. The chief alone
/// writes, and hands all to the operating system at the end of each hook. A run that
/// BackupAndRestore resumes goes on in its files behind the last snapshot, so that no point is
/// there twice. (Where the files cannot be found, it begins new ones.) Where Keras colours images
/// by their own range, these are grey from the least weight to the greatest.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
/// Include <lockstep/extra/tensorboard.hpp>.
/// Use: `TensorBoard({.log_dir = "logs", .histogram_freq = 1})`.
class TensorBoard {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError when log_dir is empty or histogram_freq negative.
  explicit TensorBoard(TensorBoardOptions options = {});

  /// The hooks throw Error naming the file when it cannot be written.
  void on_train_begin(Training& training);
  void on_epoch_begin(Training& training, int epoch);
  void on_train_batch_begin(Training& training, std::int64_t batch);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_test_end(Training& training, Logs& logs);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_train_end(Training& training, Logs& logs);
  void on_train_abort(Training& training);

  [[nodiscard]] std::string state_key() const { return options_.log_dir; }
  void save(State& state) const;
  void restore(const State& state);

 private:
  using Clock = std::chrono::steady_clock;
  /// A folder of log_dir, and its file once there is one.
  struct Run {
    std::string_view folder;
    std::unique_ptr<EventFile> file{};
  };

  EventFile& events(Run& run) const;
  void write_model(const Training& training);
  void write_weights(const Training& training, int epoch);
  void close();
  static void save_run(State& state, const Run& run);
  void restore_run(const State& state, Run& run) const;

  TensorBoardOptions options_;
  Run train_{"train"};
  Run validation_{"validation"};
  bool is_in_fit_ = false;
  bool is_chief_ = false;  // of this fit
  bool has_written_model_ = false;
  std::int64_t batches_ = 0;  // of this fit
  std::int64_t iterations_at_epoch_ = 0;
  Clock::time_point epoch_began_{};
  Clock::time_point batch_began_{};
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/tensorboard/tensorboard.ipp"
#endif
