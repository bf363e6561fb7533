#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/records/tfrecords.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

LOCKSTEP_INLINE std::size_t feature_size(const FixedLenFeature& feature) {
  if (feature.key.empty())
    throw ConfigurationError("from_tfrecords: a feature has no key: name it");
  std::size_t size = 1;
  for (const std::size_t extent : feature.shape)
    if (extent == 0 || __builtin_mul_overflow(size, extent, &size))
      throw ConfigurationError(concat({"from_tfrecords: feature ", in_quotes(feature.key),
                                       " has a shape with the extent ", extent}));
  return size;
}

template <class N>
void read_raw(std::string_view key, std::string_view bytes, std::span<double> to) {
  if (bytes.size() != to.size() * sizeof(N))
    throw DataError(concat({"feature ", in_quotes(key), ": expected ", to.size(), " numbers of ",
                            sizeof(N), " bytes, got ", bytes.size(), " bytes"}));
  for (std::size_t i = 0; i < to.size(); ++i) {
    N number;
    std::memcpy(&number, bytes.data() + i * sizeof(N), sizeof(N));
    to[i] = static_cast<double>(number);
  }
}

LOCKSTEP_INLINE void read_feature(const FixedLenFeature& feature, const ExampleView& example,
                                  std::span<double> to) {
  const FeatureView* found = example.find(feature.key);
  if ((found == nullptr || found->kind() == FeatureKind::none) && feature.default_value)
    return std::fill(to.begin(), to.end(), *feature.default_value);
  if (found == nullptr) found = &example.at(feature.key);  // throws
  if (feature.encoding == FeatureEncoding::numbers) return found->read(to);
  const std::vector<std::string_view> strings = found->bytes();
  if (strings.size() != 1)
    throw DataError(concat({"feature ", in_quotes(feature.key),
                            ": expected one string of bytes, got ", strings.size()}));
  switch (feature.encoding) {
    case FeatureEncoding::raw_uint8:
      return read_raw<std::uint8_t>(feature.key, strings[0], to);
    case FeatureEncoding::raw_int32:
      return read_raw<std::int32_t>(feature.key, strings[0], to);
    case FeatureEncoding::raw_int64:
      return read_raw<std::int64_t>(feature.key, strings[0], to);
    case FeatureEncoding::raw_float32:
      return read_raw<float>(feature.key, strings[0], to);
    default:
      return read_raw<double>(feature.key, strings[0], to);
  }
}

}  // namespace detail

LOCKSTEP_INLINE ParsedExamples parse_features(const TFRecordFeatures& features) {
  (void)detail::feature_size(features.x);
  return {
      .sample_shape = features.x.shape.empty() ? std::vector<std::size_t>{1} : features.x.shape,
      .target_size = features.y ? detail::feature_size(*features.y) : 0,
      .parse = [features](const ExampleView& example, std::span<double> x, std::span<double> y) {
        detail::read_feature(features.x, example, x);
        if (features.y && !y.empty()) detail::read_feature(*features.y, example, y);
      }};
}

namespace detail {

LOCKSTEP_INLINE std::shared_ptr<const ParsedExamples> shared_examples(ParsedExamples examples) {
  return std::make_shared<const ParsedExamples>(std::move(examples));
}
LOCKSTEP_INLINE std::shared_ptr<const ParsedExamples> shared_examples(
    const TFRecordFeatures& features) {
  return shared_examples(parse_features(features));
}

}  // namespace detail

LOCKSTEP_INLINE TFRecordSource TFRecordReader::operator()(const std::string& path) const {
  return {path, examples};
}

LOCKSTEP_INLINE TFRecordSource::TFRecordSource(std::string path,
                                               std::shared_ptr<const ParsedExamples> examples)
    : file_(std::move(path)), examples_(std::move(examples)) {
  for (const std::size_t extent : examples_->sample_shape) sample_size_ *= extent;
}

template <class T>
void TFRecordSource::read_records(std::span<const std::int64_t> indices, TensorView<T> x,
                                  TensorView<T> y) const {
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

LOCKSTEP_INLINE void TFRecordSource::read(std::span<const std::int64_t> indices,
                                          TensorView<float> x, TensorView<float> y) const {
  read_records(indices, x, y);
}
LOCKSTEP_INLINE void TFRecordSource::read(std::span<const std::int64_t> indices,
                                          TensorView<double> x, TensorView<double> y) const {
  read_records(indices, x, y);
}

LOCKSTEP_INLINE void TFRecordSource::parse(TFRecordFile::Reader& reader, std::int64_t record,
                                           std::span<double> x, std::span<double> y) const {
  const std::span<const std::byte> bytes = reader.read(record);
  try {
    examples_->parse(ExampleView(bytes), x, y);
  } catch (const DataError& error) {
    throw DataError(concat({file_.name_of(record), ": ", error.what()}));
  }
}

}}  // namespace lockstep
