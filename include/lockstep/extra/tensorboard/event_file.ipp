#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/records/protobuf.hpp"
#include "lockstep/extra/tensorboard/event_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
  static std::atomic<int> files{0};  // a fork of this process has a pid of its own
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

}  // namespace lockstep::inline LOCKSTEP_ABI
