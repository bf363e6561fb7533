// tf.train.Example: a record of named lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a feature of an Example has.
enum class FeatureKind { none, bytes, floats, ints };

/// A feature of an ExampleView.
class FeatureView {
 public:
  FeatureView(std::string_view name, FeatureKind kind, std::span<const std::byte> list) noexcept
      : name_(name), kind_(kind), list_(list) {}

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] FeatureKind kind() const noexcept { return kind_; }

  /// These throw DataError, naming the feature, when it is of another kind.
  [[nodiscard]] std::vector<float> floats() const;
  [[nodiscard]] std::vector<std::int64_t> ints() const;
  [[nodiscard]] std::vector<std::string_view> bytes() const;

  /// Puts floats or ints into `to`. Throws DataError when there are not as many, or it has bytes.
  void read(std::span<double> to) const;

 private:
  void expect(FeatureKind kind) const;

  std::string_view name_;
  FeatureKind kind_;
  std::span<const std::byte> list_;
};

/// A serialized tf.train.Example, as it lies in memory: a view of the bytes, which must outlive it.
class ExampleView {
 public:
  /// Throws DataError when the bytes are no such message.
  explicit ExampleView(std::span<const std::byte> bytes);

  [[nodiscard]] const std::vector<FeatureView>& features() const noexcept { return features_; }
  /// Null when there is none.
  [[nodiscard]] const FeatureView* find(std::string_view name) const noexcept;
  /// Throws DataError, with the names that there are.
  [[nodiscard]] const FeatureView& at(std::string_view name) const;

 private:
  std::vector<FeatureView> features_;
};

/// Makes a tf.train.Example, for TFRecordWriter.
/// @code
/// const auto example = lockstep::Example().ints("label", {7}).floats("image", pixels);
/// @endcode
/// Use: `Example()`. Keras: `tf.train.Example`.
class Example {
 public:
  /// Each sets the feature of that name.
  Example& ints(std::string name, const std::vector<std::int64_t>& values);
  Example& floats(std::string name, const std::vector<float>& values);
  Example& bytes(std::string name, const std::vector<std::string>& values);

  /// The message, with the features in the order of their names: equal examples have equal bytes.
  [[nodiscard]] std::string serialize() const;

 private:
  std::map<std::string, std::string> features_;  // serialized, by name
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/records/example.ipp"
#endif
