#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/tfrecords.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

LOCKSTEP_INLINE std::size_t feature_size(const FixedLenFeature& feature) {
  if (feature.key.empty())
    throw ConfigurationError("from_tfrecords: a feature has no key: name it");
  std::size_t size = 1;
  for (const std::size_t extent : feature.shape)
    if (extent == 0 || __builtin_mul_overflow(size, extent, &size))
      throw ConfigurationError(concat(
          {"from_tfrecords: feature '", feature.key, "' has a shape with the extent ", extent}));
  return size;
}

template <class N>
void read_raw(std::string_view key, std::string_view bytes, std::span<double> to) {
  if (bytes.size() != to.size() * sizeof(N))
    throw DataError(concat({"feature '", key, "': expected ", to.size(), " numbers of ", sizeof(N),
                            " bytes, got ", bytes.size(), " bytes"}));
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
    throw DataError(concat(
        {"feature '", feature.key, "': expected one string of bytes, got ", strings.size()}));
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

LOCKSTEP_INLINE void TFRecordSource::parse(TFRecordFile::Reader& reader, std::int64_t record,
                                           std::span<double> x, std::span<double> y) const {
  const std::span<const std::byte> bytes = reader.read(record);
  try {
    examples_->parse(ExampleView(bytes), x, y);
  } catch (const DataError& error) {
    throw DataError(concat({file_.name_of(record), ": ", error.what()}));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
