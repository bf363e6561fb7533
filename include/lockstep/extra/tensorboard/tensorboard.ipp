#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/tensorboard/tensorboard.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

LOCKSTEP_INLINE std::vector<double> numbers_of(const SavedArray& array) {
  const std::size_t size = scalar_size(array.scalar);
  std::vector<double> numbers(array.bytes.size() / size);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    float single = 0;
    if (size == sizeof single) {
      std::memcpy(&single, array.bytes.data() + i * size, size);
      numbers[i] = static_cast<double>(single);
    } else {
      std::memcpy(&numbers[i], array.bytes.data() + i * size, size);
    }
  }
  return numbers;
}

/// A weight's numbers as grey images [count x height x width], as Keras lays them out: a vector is
/// a column, a matrix is wider than high, and of three dimensions the last one counts images. Other
/// weights have none.
struct WeightImages {
  std::size_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels{};

  WeightImages(const SavedArray& array, std::span<const double> numbers) {
    constexpr std::size_t most = 4096;  // pixels high or wide: more than a screen shows
    std::vector<std::size_t> shape;
    for (const std::uint64_t extent : array.extents)
      if (extent != 1) shape.push_back(static_cast<std::size_t>(extent));
    if (shape.empty() || shape.size() > 3 || numbers.empty()) return;
    const bool is_turned = shape.size() == 2 && shape[0] > shape[1];
    count = shape.size() == 3 ? shape[2] : 1;
    height = is_turned ? shape[1] : shape[0];
    width = shape.size() == 1 ? 1 : is_turned ? shape[0] : shape[1];
    if (height > most || width > most) {
      count = 0;
      return;
    }
    double least = numbers[0], greatest = numbers[0];
    for (const double number : numbers) {
      least = std::min(least, number);
      greatest = std::max(greatest, number);
    }
    pixels.resize(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double grey =
          greatest > least ? std::round(255 * (numbers[i] - least) / (greatest - least)) : 0;
      std::size_t to = i;
      if (is_turned) to = i % shape[1] * shape[0] + i / shape[1];
      if (count > 1) to = i % count * (height * width) + i / count;
      pixels[to] = grey >= 0 && grey <= 255 ? static_cast<std::uint8_t>(grey) : std::uint8_t{0};
    }
  }

  [[nodiscard]] std::vector<std::string> pngs() const {
    std::vector<std::string> images;
    for (std::size_t i = 0; i < count; ++i)
      images.push_back(encode_png(std::span(pixels).subspan(i * height * width, height * width),
                                  height, width, 1));
    return images;
  }
};

LOCKSTEP_INLINE double per_second(double count, std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return time.count() > 0 ? count / time.count() : 0;
}

}  // namespace detail

LOCKSTEP_INLINE TensorBoard::TensorBoard(TensorBoardOptions options)
    : options_(std::move(options)) {
  if (options_.log_dir.empty())
    throw ConfigurationError("TensorBoard: log_dir is empty: name a folder");
  if (options_.histogram_freq < 0)
    throw ConfigurationError(
        concat({"TensorBoard: histogram_freq is a number of epochs, or 0 for no histograms, got ",
                options_.histogram_freq}));
}

LOCKSTEP_INLINE void TensorBoard::on_train_begin(Training& training) {
  close();
  is_chief_ = training.is_chief();
  is_in_fit_ = true;
  has_written_model_ = false;
  batches_ = 0;
}

LOCKSTEP_INLINE void TensorBoard::on_epoch_begin(Training& training, int) {
  if (training.is_chief() && options_.write_graph && !std::exchange(has_written_model_, true))
    write_model(training);
  iterations_at_epoch_ = training.iterations();
  epoch_began_ = Clock::now();
}

LOCKSTEP_INLINE void TensorBoard::on_train_batch_begin(Training&, std::int64_t) {
  batch_began_ = Clock::now();
}

LOCKSTEP_INLINE void TensorBoard::on_train_batch_end(Training& training, std::int64_t, Logs& logs) {
  ++batches_;
  if (!training.is_chief() || !options_.update_freq.due(batches_)) return;
  EventFile& file = events(train_);
  if (options_.write_steps_per_second)
    file.scalar("batch_steps_per_second", batches_, detail::per_second(1, batch_began_));
  for (const auto& [name, value] : logs) file.scalar("batch_" + name, batches_, value);
  file.flush();
}

LOCKSTEP_INLINE void TensorBoard::on_test_end(Training& training, Logs& logs) {
  if (!training.is_chief()) return;
  EventFile& file = events(validation_);
  for (const auto& [name, value] : logs)
    file.scalar(concat({"evaluation_", name, "_vs_iterations"}), training.iterations(), value);
  file.flush();
  if (!is_in_fit_) close();
}

LOCKSTEP_INLINE void TensorBoard::on_epoch_end(Training& training, int epoch, Logs& logs) {
  constexpr std::string_view validated = "val_";
  if (!training.is_chief()) return;
  EventFile& file = events(train_);
  for (const auto& [name, value] : logs) {
    if (name.starts_with(validated))
      events(validation_).scalar("epoch_" + name.substr(validated.size()), epoch, value);
    else if (name != "learning_rate")
      file.scalar("epoch_" + name, epoch, value);
  }
  file.scalar("epoch_learning_rate", epoch, training.learning_rate());
  if (options_.write_steps_per_second)
    file.scalar(
        "epoch_steps_per_second", epoch,
        detail::per_second(static_cast<double>(training.iterations() - iterations_at_epoch_),
                           epoch_began_));
  if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0)
    write_weights(training, epoch);
  file.flush();
  if (validation_.file) validation_.file->flush();
}

LOCKSTEP_INLINE void TensorBoard::on_train_end(Training&, Logs&) {
  is_in_fit_ = false;
  close();
}

LOCKSTEP_INLINE void TensorBoard::on_train_abort(Training&) {
  is_in_fit_ = false;
  close();
}

LOCKSTEP_INLINE void TensorBoard::save(State& state) const {
  state.put("batches", batches_);
  state.put("has_written_model", has_written_model_);
  save_run(state, train_);
  save_run(state, validation_);
}

LOCKSTEP_INLINE void TensorBoard::restore(const State& state) {
  close();
  batches_ = state.get<std::int64_t>("batches");
  restore_run(state, train_);
  restore_run(state, validation_);
  has_written_model_ = state.get<bool>("has_written_model") && train_.file != nullptr;
}

LOCKSTEP_INLINE EventFile& TensorBoard::events(Run& run) const {
  if (!run.file) {
    const std::string folder = (std::filesystem::path(options_.log_dir) / run.folder).string();
    run.file = std::make_unique<EventFile>(folder, options_.wall_time);
  }
  return *run.file;
}

LOCKSTEP_INLINE void TensorBoard::write_model(const Training& training) {
  const ModelText text = training.model_text();
  if (text.summary.empty()) return;
  EventFile& file = events(train_);
  file.model("keras", 0, text.json);
  std::string markdown;  // indented: as it is
  for (std::size_t begin = 0, end = 0; (end = text.summary.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    markdown += "    " + text.summary.substr(begin, end + 1 - begin);
  file.text("model_summary", 0, markdown);
  file.flush();
}

LOCKSTEP_INLINE void TensorBoard::write_weights(const Training& training, int epoch) {
  EventFile& file = events(train_);
  const TrainingState state = training.state();
  for (const auto* arrays : {&state.parameters, &state.state})
    for (const SavedArray& array : *arrays) {
      const std::vector<double> numbers = detail::numbers_of(array);
      file.histogram(array.name + "/histogram", epoch, numbers);
      if (!options_.write_images) continue;
      const detail::WeightImages images(array, numbers);
      if (images.count > 0)
        file.images(array.name + "/image", epoch, images.height, images.width, images.pngs());
    }
}

LOCKSTEP_INLINE void TensorBoard::close() {
  for (Run* const run : {&train_, &validation_})
    if (const auto file = std::exchange(run->file, nullptr)) file->close();
}

LOCKSTEP_INLINE void TensorBoard::save_run(State& state, const Run& run) {
  if (!run.file) return;
  state.put(concat({run.folder, "_file"}),
            std::filesystem::path(run.file->path()).filename().string());
  state.put(concat({run.folder, "_size"}), run.file->size());
}

LOCKSTEP_INLINE void TensorBoard::restore_run(const State& state, Run& run) const {
  const std::string name = concat({run.folder, "_file"});
  if (!is_chief_ || !state.contains(name)) return;
  const auto size = state.get<std::uint64_t>(concat({run.folder, "_size"}));
  const auto path = std::filesystem::path(options_.log_dir) / run.folder /
                    std::filesystem::path(state.get<std::string>(name)).filename();
  std::error_code error;
  const std::uintmax_t found = std::filesystem::file_size(path, error);
  if (!error && found >= size)
    run.file = std::make_unique<EventFile>(path.string(), size, options_.wall_time);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
