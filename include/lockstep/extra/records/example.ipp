#pragma once

#include <bit>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/records/example.hpp"
#include "lockstep/extra/records/protobuf.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

// tensorflow/core/example/example.proto and feature.proto: Example {features 1}, Features {feature
// 1: a map of key 1 and value 2}, Feature {bytes_list 1, float_list 2, int64_list 3}, each {value
// 1}.

namespace detail {

LOCKSTEP_INLINE std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LOCKSTEP_INLINE std::string_view kind_text(FeatureKind kind) noexcept {
  constexpr std::string_view names[] = {"nothing", "a list of bytes", "a list of floats",
                                        "a list of ints"};
  return names[static_cast<std::size_t>(kind)];
}

LOCKSTEP_INLINE FeatureView feature_of(std::span<const std::byte> entry) {
  std::string_view name;
  std::span<const std::byte> value, list;
  for (ProtoReader field(entry); field.next();) {
    if (field.field() == 1) name = text_of(field.bytes());
    if (field.field() == 2) value = field.bytes();
  }
  FeatureKind kind = FeatureKind::none;
  for (ProtoReader field(value); field.next();) {
    if (field.field() > 3) continue;
    kind = static_cast<FeatureKind>(field.field());
    list = field.bytes();
  }
  return {name, kind, list};
}

}  // namespace detail

LOCKSTEP_INLINE void FeatureView::expect(FeatureKind kind) const {
  if (kind_ != kind && kind_ != FeatureKind::none)
    throw DataError(concat({"feature ", in_quotes(name_), ": expected ", detail::kind_text(kind),
                            ", got ", detail::kind_text(kind_)}));
}

LOCKSTEP_INLINE std::vector<float> FeatureView::floats() const {
  expect(FeatureKind::floats);
  std::vector<float> values;
  for (detail::ProtoReader field(list_); field.next();)
    if (field.field() == 1) field.each_float([&](float value) { values.push_back(value); });
  return values;
}

LOCKSTEP_INLINE std::vector<std::int64_t> FeatureView::ints() const {
  expect(FeatureKind::ints);
  std::vector<std::int64_t> values;
  for (detail::ProtoReader field(list_); field.next();)
    if (field.field() == 1)
      field.each_varint(
          [&](std::uint64_t value) { values.push_back(static_cast<std::int64_t>(value)); });
  return values;
}

LOCKSTEP_INLINE std::vector<std::string_view> FeatureView::bytes() const {
  expect(FeatureKind::bytes);
  std::vector<std::string_view> values;
  for (detail::ProtoReader field(list_); field.next();)
    if (field.field() == 1) values.push_back(detail::text_of(field.bytes()));
  return values;
}

LOCKSTEP_INLINE void FeatureView::read(std::span<double> to) const {
  if (kind_ == FeatureKind::bytes) expect(FeatureKind::floats);
  std::size_t count = 0;
  const auto put = [&](double value) {
    if (count < to.size()) to[count] = value;
    ++count;
  };
  for (detail::ProtoReader field(list_); field.next();) {
    if (field.field() != 1) continue;
    if (kind_ == FeatureKind::floats)
      field.each_float([&](float value) { put(static_cast<double>(value)); });
    else
      field.each_varint(
          [&](std::uint64_t value) { put(static_cast<double>(static_cast<std::int64_t>(value))); });
  }
  if (count != to.size())
    throw DataError(
        concat({"feature ", in_quotes(name_), ": expected ", to.size(), " numbers, got ", count}));
}

LOCKSTEP_INLINE ExampleView::ExampleView(std::span<const std::byte> bytes) {
  for (detail::ProtoReader example(bytes); example.next();)
    if (example.field() == 1)
      for (detail::ProtoReader features(example.bytes()); features.next();)
        if (features.field() == 1) features_.push_back(detail::feature_of(features.bytes()));
}

LOCKSTEP_INLINE const FeatureView* ExampleView::find(std::string_view name) const noexcept {
  const FeatureView* found =
      nullptr;  // the last one of a name counts, as in every map of Protocol Buffers
  for (const FeatureView& feature : features_)
    if (feature.name() == name) found = &feature;
  return found;
}

LOCKSTEP_INLINE const FeatureView& ExampleView::at(std::string_view name) const {
  if (const FeatureView* const found = find(name)) return *found;
  std::string names;
  for (const FeatureView& feature : features_) {
    names += names.empty() ? "" : ", ";
    names += printable(feature.name(), 40);
    if (names.size() > 400) break;
  }
  throw DataError(concat({"expected a feature ", in_quotes(name), ", the example has ",
                          names.empty() ? "none" : names}));
}

LOCKSTEP_INLINE Example& Example::ints(std::string name, const std::vector<std::int64_t>& values) {
  detail::ProtoWriter packed, list, feature;
  for (const std::int64_t value : values) packed.put_varint(static_cast<std::uint64_t>(value));
  if (!values.empty()) list.text(1, packed.bytes());
  features_[std::move(name)] = feature.message(3, list).bytes();
  return *this;
}

LOCKSTEP_INLINE Example& Example::floats(std::string name, const std::vector<float>& values) {
  detail::ProtoWriter packed, list, feature;
  for (const float value : values) packed.fixed<4>(std::bit_cast<std::uint32_t>(value));
  if (!values.empty()) list.text(1, packed.bytes());
  features_[std::move(name)] = feature.message(2, list).bytes();
  return *this;
}

LOCKSTEP_INLINE Example& Example::bytes(std::string name, const std::vector<std::string>& values) {
  detail::ProtoWriter list, feature;
  for (const std::string& value : values) list.text(1, value);
  features_[std::move(name)] = feature.message(1, list).bytes();
  return *this;
}

LOCKSTEP_INLINE std::string Example::serialize() const {
  detail::ProtoWriter features, example;
  for (const auto& [name, feature] : features_) {
    detail::ProtoWriter entry;
    features.message(1, entry.text(1, name).text(2, feature));
  }
  return example.message(1, features).bytes();
}

}}  // namespace lockstep
