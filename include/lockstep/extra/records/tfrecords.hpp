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
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/extra/records/example.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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
  TFRecordSource(std::string path, std::shared_ptr<const ParsedExamples> examples);

  [[nodiscard]] std::int64_t size() const noexcept { return file_.size(); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sample_size_; }
  [[nodiscard]] std::size_t target_size() const noexcept { return examples_->target_size; }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return examples_->sample_shape; }

  void read(std::span<const std::int64_t> indices, TensorView<float> x, TensorView<float> y) const;
  void read(std::span<const std::int64_t> indices, TensorView<double> x,
            TensorView<double> y) const;

 private:
  template <class T>
  void read_records(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const;
  void parse(TFRecordFile::Reader& reader, std::int64_t record, std::span<double> x,
             std::span<double> y) const;

  TFRecordFile file_;
  std::shared_ptr<const ParsedExamples> examples_;
  std::size_t sample_size_ = 1;
};

/// The reader of from_tfrecords.
struct TFRecordReader {
  std::shared_ptr<const ParsedExamples> examples;
  [[nodiscard]] TFRecordSource operator()(const std::string& path) const;
};

namespace detail {
[[nodiscard]] std::shared_ptr<const ParsedExamples> shared_examples(ParsedExamples examples);
[[nodiscard]] std::shared_ptr<const ParsedExamples> shared_examples(
    const TFRecordFeatures& features);
}  // namespace detail

/// A pipeline of tf.train.Examples in TFRecord files, as TensorFlow or TFRecordWriter writes them.
/// Nothing but the places of the records is held in memory, so that samples are shuffled whatever
/// their number, and positions can be sought. Files are divided among workers as from_files does
/// it. Throws ConfigurationError for features that make no sense, and, when data are needed,
/// DataError naming file, record and offset. Include <lockstep/extra/records.hpp>.
/// @code
/// auto train = lockstep::from_tfrecords({"a.tfrecord", "b.tfrecord"},
///                                       {.x = {.key = "image",
///                                              .shape = {28, 28},
///                                              .encoding = lockstep::FeatureEncoding::raw_uint8},
///                                        .y = {{.key = "label"}}})
///                  .shuffle(10'000).batch(64);
/// @endcode
/// Use: `from_tfrecords({"a.tfrecord"}, {.x = {.key = "image", .shape = {28, 28}}, .y = {{.key =
/// "label"}}})`. Keras: `TFRecordDataset`, `tf.io.parse_single_example`.
template <class Reader = TFRecordReader>
[[nodiscard]] auto from_tfrecords(std::vector<std::string> paths,
                                  const TFRecordFeatures& features) {
  return from_files(std::move(paths), Reader{detail::shared_examples(features)});
}
/// The same, by a function of your own.
template <class Reader = TFRecordReader>
[[nodiscard]] auto from_tfrecords(std::vector<std::string> paths, ParsedExamples examples) {
  return from_files(std::move(paths), Reader{detail::shared_examples(std::move(examples))});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/records/tfrecords.ipp"
#endif
