// Event files, which TensorBoard shows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/extra/records/tfrecord_writer.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A bucket of a histogram: left edge, right edge, number of values.
using HistogramBucket = std::array<double, 3>;

/// TensorBoard's histogram: `buckets` equal buckets from the least value to the greatest, the last
/// one with both edges; one bucket of width 1 when all values are equal, none without values.
/// Values that are not finite are left out. (tensorboard/plugins/histogram/summary.py)
[[nodiscard]] std::vector<HistogramBucket> histogram_of(std::span<const double> values,
                                                        std::size_t buckets = 30);

/// A PNG of 8-bit pixels [height x width x channels] with 1 (grey) or 3 (RGB) channels,
/// uncompressed. Throws ConfigurationError when the number of pixels is another one, or an extent
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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/tensorboard/event_file.ipp"
#endif
