// Datasets in TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/records/example.hpp"
#include "lockstep/records/tfrecord_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// How a feature holds its numbers: as a list of floats or ints, or in one string of bytes, as
/// tf.io.decode_raw takes it (little-endian).
enum class FeatureEncoding { numbers, raw_uint8, raw_int32, raw_int64, raw_float32, raw_float64 };

/// A feature that every example has, as tf.io.FixedLenFeature.
struct FixedLenFeature {
  std::string key;
  std::vector<std::size_t> shape = {};  ///< row-major; empty: one number
  FeatureEncoding encoding = FeatureEncoding::numbers;
  std::optional<double> default_value =
      std::nullopt;  ///< each number of an example without the feature
};

/// The features of samples and their targets.
struct TFRecordFeatures {
  FixedLenFeature x;
  std::optional<FixedLenFeature> y = std::nullopt;  ///< none: samples without targets
};

/// What is made of an example: fills x and, unless it is empty, y, both in row-major order. May
/// throw DataError; called by several threads at once.
using ParseExample =
    std::function<void(const ExampleView& example, std::span<double> x, std::span<double> y)>;

/// Examples for a function of your own.
struct ParsedExamples {
  std::vector<std::size_t> sample_shape;
  std::size_t target_size = 0;
  ParseExample parse;
};

/// How to read `features`. Throws ConfigurationError for a feature without a key, or an extent of
/// 0.
[[nodiscard]] ParsedExamples parse_features(const TFRecordFeatures& features);

/// A Source of the examples in one file, which reads a sample when it is wanted. Errors name the
/// file, the record and its offset. Several threads may read.
class TFRecordSource {
 public:
  /// Throws what TFRecordFile throws.
  TFRecordSource(std::string path, std::shared_ptr<const ParsedExamples> examples)
      : file_(std::move(path)), examples_(std::move(examples)) {
    for (const std::size_t extent : examples_->sample_shape) sample_size_ *= extent;
  }

  [[nodiscard]] std::int64_t size() const noexcept { return file_.size(); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sample_size_; }
  [[nodiscard]] std::size_t target_size() const noexcept { return examples_->target_size; }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return examples_->sample_shape; }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const {
    TFRecordFile::Reader reader(file_);
    std::vector<double> numbers(sample_size_ + (y.empty() ? 0 : target_size()));
    const auto sample = std::span(numbers).first(sample_size_),
               target = std::span(numbers).subspan(sample_size_);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      parse(reader, indices[i], sample, target);
      for (std::size_t f = 0; f < sample.size(); ++f) x(i, f) = static_cast<T>(sample[f]);
      for (std::size_t f = 0; f < target.size(); ++f) y(i, f) = static_cast<T>(target[f]);
    }
  }

 private:
  void parse(TFRecordFile::Reader& reader, std::int64_t record, std::span<double> x,
             std::span<double> y) const;

  TFRecordFile file_;
  std::shared_ptr<const ParsedExamples> examples_;
  std::size_t sample_size_ = 1;
};

/// The reader of from_tfrecords.
struct TFRecordReader {
  std::shared_ptr<const ParsedExamples> examples;
  [[nodiscard]] TFRecordSource operator()(const std::string& path) const {
    return {path, examples};
  }
};

/// A pipeline of tf.train.Examples in TFRecord files, as TensorFlow or TFRecordWriter writes them.
/// Nothing but the places of the records is held in memory, so that samples are shuffled whatever
/// their number, and positions can be sought. Files are divided among workers as from_files does
/// it. Throws ConfigurationError for features that make no sense, and, when data are needed,
/// DataError naming file, record and offset.
/// @code
/// auto train = lockstep::from_tfrecords({"a.tfrecord", "b.tfrecord"},
///                                       {.x = {.key = "image", .shape = {28, 28}, .encoding = lockstep::FeatureEncoding::raw_uint8},
///                                        .y = {{.key = "label"}}})
///                  .shuffle(10'000).batch(64);
/// @endcode
[[nodiscard]] inline auto from_tfrecords(std::vector<std::string> paths,
                                         const TFRecordFeatures& features) {
  return from_files(
      std::move(paths),
      TFRecordReader{std::make_shared<const ParsedExamples>(parse_features(features))});
}
/// The same, by a function of your own.
[[nodiscard]] inline auto from_tfrecords(std::vector<std::string> paths, ParsedExamples examples) {
  return from_files(std::move(paths),
                    TFRecordReader{std::make_shared<const ParsedExamples>(std::move(examples))});
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/tfrecords.ipp"
#endif
