#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/records/protobuf.hpp"
#include "lockstep/extra/tensorboard/tensorboard.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::vector<HistogramBucket> histogram_of(std::span<const double> values,
                                                          std::size_t buckets) {
  std::size_t count = 0;
  double least = 0, greatest = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = count == 0 ? value : std::min(least, value);
    greatest = count == 0 ? value : std::max(greatest, value);
    ++count;
  }
  if (count == 0 || buckets == 0) return {};
  if (least == greatest) return {{least - 0.5, least + 0.5, static_cast<double>(count)}};
  std::vector<HistogramBucket> histogram(buckets);
  const double width = (greatest - least) / static_cast<double>(buckets);
  for (std::size_t i = 0; i < buckets; ++i)
    histogram[i] = {least + width * static_cast<double>(i),
                    least + width * static_cast<double>(i + 1), 0};
  histogram.back()[1] = greatest;
  for (const double value : values)
    if (std::isfinite(value)) {
      const double place =
          std::floor((value - least) / width);  // no number where the range has no width
      const double last = static_cast<double>(buckets - 1);
      histogram[place < last ? static_cast<std::size_t>(place) : buckets - 1][2] += 1;
    }
  return histogram;
}

namespace detail {

LOCKSTEP_INLINE void put_big_endian(std::string& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(number >> shift & 0xFF);
}

/// A chunk of a PNG: its size, name, data, and the CRC of the last two.
LOCKSTEP_INLINE void put_png_chunk(std::string& png, std::string_view name, std::string_view data) {
  put_big_endian(png, static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = png.size();
  png += name;
  png += data;
  put_big_endian(png, crc32(std::as_bytes(std::span(png).subspan(begin))));
}

/// The zlib format (RFC 1950) without compression, so that it needs no library.
LOCKSTEP_INLINE std::string stored_zlib(std::string_view data) {
  constexpr std::size_t most = 0xFFFF;
  std::string stored = "\x78\x01";
  for (std::size_t begin = 0; begin == 0 || begin < data.size(); begin += most) {
    const std::string_view block = data.substr(begin, most);
    stored += begin + most >= data.size() ? '\1' : '\0';
    const std::size_t sizes = block.size() | (block.size() ^ most) << 16;
    for (int shift = 0; shift < 32; shift += 8) stored += static_cast<char>(sizes >> shift & 0xFF);
    stored += block;
  }
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : data) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  put_big_endian(stored, b << 16 | a);
  return stored;
}

// enum DataType of tensorflow/core/framework/types.proto
inline constexpr std::uint64_t dt_float = 1, dt_double = 2, dt_string = 7;
// enum DataClass of tensorflow/core/framework/summary.proto
inline constexpr std::uint64_t data_class_scalar = 1, data_class_tensor = 2,
                               data_class_blob_sequence = 3;

/// A TensorProto's beginning.
LOCKSTEP_INLINE ProtoWriter tensor_proto(std::uint64_t type,
                                         std::initializer_list<std::size_t> extents) {
  ProtoWriter shape;
  for (const std::size_t extent : extents) {
    ProtoWriter dimension;
    if (extent > 0) dimension.varint(1, extent);
    shape.message(2, dimension);
  }
  ProtoWriter tensor;
  tensor.varint(1, type).message(2, shape);
  return tensor;
}

/// A Summary.Value for one of TensorBoard's plugins.
LOCKSTEP_INLINE std::string summary_value(std::string_view tag, const ProtoWriter& tensor,
                                          std::string_view plugin, std::string_view content,
                                          std::uint64_t data_class) {
  ProtoWriter data, metadata, value;
  data.text(1, plugin);
  if (!content.empty()) data.text(2, content);
  metadata.message(1, data);
  if (data_class != 0) metadata.varint(4, data_class);
  value.text(1, tag).message(8, tensor).message(9, metadata);
  return value.bytes();
}

LOCKSTEP_INLINE double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

LOCKSTEP_INLINE std::string new_event_path(const std::string& folder, EventFile::Clock wall_time) {
  static std::atomic<int> files{0};  // a fork of this process has its own pid
  char host[256] = "localhost";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  std::string seconds = concat({static_cast<std::int64_t>(wall_time())});
  if (seconds.size() < 10) seconds.insert(0, 10 - seconds.size(), '0');
  const std::string name =
      concat({"events.out.tfevents.", seconds, ".", static_cast<const char*>(host), ".", ::getpid(),
              ".", files++, ".v2"});
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace detail

LOCKSTEP_INLINE std::string encode_png(std::span<const std::uint8_t> pixels, std::size_t height,
                                       std::size_t width, std::size_t channels) {
  constexpr std::size_t most = std::size_t{1} << 15;
  if ((channels != 1 && channels != 3) || height == 0 || width == 0 || height > most ||
      width > most || pixels.size() != height * width * channels)
    throw ConfigurationError(
        concat({"encode_png: expected pixels [height x width x 1 or 3], at most ", most,
                " high and wide, got ", pixels.size(), " for [", height, " x ", width, " x ",
                channels, "]"}));
  std::string header, rows;
  detail::put_big_endian(header, static_cast<std::uint32_t>(width));
  detail::put_big_endian(header, static_cast<std::uint32_t>(height));
  header += {'\x8', channels == 1 ? '\0' : '\2', '\0', '\0', '\0'};
  for (std::size_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + row * width * channels,
                width * channels);
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  detail::put_png_chunk(png, "IHDR", header);
  detail::put_png_chunk(png, "IDAT", detail::stored_zlib(rows));
  detail::put_png_chunk(png, "IEND", "");
  return png;
}

LOCKSTEP_INLINE EventFile::EventFile(const std::string& folder, Clock wall_time)
    : wall_time_(wall_time == nullptr ? &detail::system_seconds : wall_time),
      file_(detail::new_event_path(folder, wall_time_)) {
  detail::ProtoWriter event;
  event.number(1, wall_time_()).text(3, "brain.Event:2");
  file_.write(event.bytes());
}

LOCKSTEP_INLINE EventFile::EventFile(const std::string& path, std::uint64_t size, Clock wall_time)
    : wall_time_(wall_time == nullptr ? &detail::system_seconds : wall_time), file_(path, size) {}

LOCKSTEP_INLINE void EventFile::write(std::int64_t step, const std::string& value) {
  detail::ProtoWriter summary, event;
  summary.text(1, value);
  event.number(1, wall_time_());
  if (step != 0) event.varint(2, static_cast<std::uint64_t>(step));
  event.message(5, summary);
  file_.write(event.bytes());
}

LOCKSTEP_INLINE void EventFile::scalar(std::string_view tag, std::int64_t step, double value) {
  detail::ProtoWriter number, tensor = detail::tensor_proto(detail::dt_float, {});
  number.fixed<4>(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  tensor.text(5, number.bytes());
  write(step, detail::summary_value(tag, tensor, "scalars", {}, detail::data_class_scalar));
}

LOCKSTEP_INLINE void EventFile::histogram(std::string_view tag, std::int64_t step,
                                          std::span<const double> values, std::size_t buckets) {
  const std::vector<HistogramBucket> histogram = histogram_of(values, buckets);
  detail::ProtoWriter numbers,
      tensor = detail::tensor_proto(detail::dt_double, {histogram.size(), 3});
  for (const HistogramBucket& bucket : histogram)
    for (const double number : bucket) numbers.fixed<8>(std::bit_cast<std::uint64_t>(number));
  if (!histogram.empty()) tensor.text(4, numbers.bytes());
  write(step, detail::summary_value(tag, tensor, "histograms", {}, detail::data_class_tensor));
}

LOCKSTEP_INLINE void EventFile::text(std::string_view tag, std::int64_t step,
                                     std::string_view markdown) {
  detail::ProtoWriter tensor = detail::tensor_proto(detail::dt_string, {});
  tensor.text(8, markdown);
  write(step, detail::summary_value(tag, tensor, "text", {}, detail::data_class_tensor));
}

LOCKSTEP_INLINE void EventFile::images(std::string_view tag, std::int64_t step, std::size_t height,
                                       std::size_t width, std::span<const std::string> pngs) {
  detail::ProtoWriter tensor = detail::tensor_proto(detail::dt_string, {pngs.size() + 2});
  tensor.text(8, concat({width})).text(8, concat({height}));
  for (const std::string& png : pngs) tensor.text(8, png);
  write(step, detail::summary_value(tag, tensor, "images", {}, detail::data_class_blob_sequence));
}

LOCKSTEP_INLINE void EventFile::model(std::string_view tag, std::int64_t step,
                                      std::string_view json) {
  detail::ProtoWriter tensor = detail::tensor_proto(detail::dt_string, {});
  tensor.text(8, json);
  write(step, detail::summary_value(tag, tensor, "graph_keras_model", "1", 0));
}

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

}}  // namespace lockstep
