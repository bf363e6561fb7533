// TensorBoard: event files, and the callback that writes them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/frequency.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A bucket of a histogram: left edge, right edge, number of values.
using HistogramBucket = std::array<double, 3>;

/// TensorBoard's histogram: `buckets` equal buckets from the least value to the greatest, the last
/// one with both edges; one bucket of width 1 when all values are equal, none without values.
/// Values that are not finite are left out. (tensorboard/plugins/histogram/summary.py)
[[nodiscard]] std::vector<HistogramBucket> histogram_of(std::span<const double> values,
                                                        std::size_t buckets = 30);

/// A PNG of 8-bit pixels [height x width x channels] with 1 (grey) or 3 (RGB) channels,
/// uncompressed. Throws ConfigurationError when the number of pixels differs, or an extent
/// is 0.
[[nodiscard]] std::string encode_png(std::span<const std::uint8_t> pixels, std::size_t height,
                                     std::size_t width, std::size_t channels);

/// Writes an event file: what TensorBoard shows of a run, in the format of TensorFlow 2.
/// `wall_time` is in seconds since 1970. All but the destructor throw Error naming the file. One
/// thread at a time.
/// @code
/// lockstep::EventFile events("logs/train");
/// events.scalar("loss", 1, 0.25);
/// @endcode
class EventFile {
 public:
  using Clock = double (*)();

  /// A new file in `folder`, which is made: "events.out.tfevents.<seconds>.<host>.<pid>.<n>.v2".
  /// Without `wall_time` it is the system's clock.
  explicit EventFile(const std::string& folder, Clock wall_time = nullptr);
  /// Goes on with a file behind its first `size` bytes.
  EventFile(const std::string& path, std::uint64_t size, Clock wall_time = nullptr);

  void scalar(std::string_view tag, std::int64_t step, double value);
  void histogram(std::string_view tag, std::int64_t step, std::span<const double> values,
                 std::size_t buckets = 30);
  /// Markdown.
  void text(std::string_view tag, std::int64_t step, std::string_view markdown);
  /// Images as encode_png makes them, of equal size.
  void images(std::string_view tag, std::int64_t step, std::size_t height, std::size_t width,
              std::span<const std::string> pngs);
  /// A model in Keras's JSON, for the tab Graphs.
  void model(std::string_view tag, std::int64_t step, std::string_view json);

  void flush() { file_.flush(); }
  void close() { file_.close(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return file_.size(); }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  void write(std::int64_t step, const std::string& value);

  Clock wall_time_;
  TFRecordWriter file_;
};

struct TensorBoardOptions {
  std::string log_dir = "logs";  ///< no other run's
  int histogram_freq = 0;        ///< histograms of the weights every n epochs; 0: none
  bool write_graph = true;       ///< the layers (tab Graphs), and summary() (tab Text)
  bool write_images =
      false;  ///< with each histogram the weights as images, too (not above 4096 x 4096)
  bool write_steps_per_second = false;
  UpdateFrequency update_freq = UpdateFrequency::epoch;  ///< or every n batches as well
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
/// Folders and files are made when first written to; each fit has its own files. The chief alone
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

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/tensorboard/tensorboard.ipp"
#endif
