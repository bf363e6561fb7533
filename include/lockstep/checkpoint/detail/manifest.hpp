// The manifest of a checkpoint, by cereal: named sections, and of each array all but its elements.
#pragma once

#include <array>
#include <cereal/archives/portable_binary.hpp>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Collects what cereal writes.
class ByteSink final : public std::streambuf {
 public:
  explicit ByteSink(std::vector<std::byte>& bytes) : bytes_(bytes) {}

 private:
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    const auto* const first = reinterpret_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
    return size;
  }
  int_type overflow(int_type c) override {
    bytes_.push_back(static_cast<std::byte>(c));
    return c;
  }

  std::vector<std::byte>& bytes_;
};

/// Writes numbers, texts, lists, records and arrays one after the other.
class ManifestWriter {
 public:
  explicit ManifestWriter(std::vector<std::byte>& bytes)
      : sink_(bytes),
        stream_(&sink_),
        archive_(stream_, cereal::PortableBinaryOutputArchive::Options::LittleEndian()) {}

  void operator()(const std::string& text) { sequence(text); }
  template <class E>
  void operator()(const std::vector<E>& values) {
    if constexpr (std::is_arithmetic_v<E> || std::is_same_v<E, std::byte>) {
      sequence(values);
    } else {
      archive_(static_cast<std::uint64_t>(values.size()));
      for (const E& value : values) (*this)(value);
    }
  }
  template <class N>
    requires std::is_arithmetic_v<N>
  void operator()(N number) {
    archive_(number);
  }
  /// What ManifestReader reads as an ArrayEntry: all of an array but its elements.
  void operator()(const SavedArray& array) {
    (*this)(array.name);
    (*this)(array.scalar);
    (*this)(array.extents);
    archive_(static_cast<std::uint64_t>(array.bytes.size()));
    archive_(crc32c(array.bytes));
  }
  void operator()(const State& state) {
    archive_(static_cast<std::uint64_t>(state.values().size()));
    for (const auto& [name, value] : state.values()) {
      (*this)(name);
      archive_(static_cast<std::uint8_t>(value.index()));
      std::visit([this](const auto& held) { (*this)(held); }, value);
    }
  }

 private:
  template <class C>
  void sequence(const C& values) {
    using E = typename C::value_type;
    archive_(static_cast<std::uint64_t>(values.size()));
    if constexpr (sizeof(E) == 1)
      archive_(cereal::binary_data(const_cast<E*>(values.data()), values.size()));
    else
      for (const E& value : values) archive_(value);
  }

  ByteSink sink_;
  std::ostream stream_;
  cereal::PortableBinaryOutputArchive archive_;
};

/// Lets cereal read from memory.
class ByteSource final : public std::streambuf {
 public:
  explicit ByteSource(std::span<const std::byte> bytes) {
    char* const first = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(first, first, first + bytes.size());
  }
  [[nodiscard]] std::size_t remaining() const noexcept {
    return static_cast<std::size_t>(egptr() - gptr());
  }
};

/// What a manifest says about an array.
struct ArrayEntry {
  std::string name;
  std::string scalar;
  std::vector<std::uint64_t> extents;
  std::uint64_t size = 0;  ///< in bytes
  std::uint32_t crc = 0;
};

/// Reads what ManifestWriter wrote. cereal's own containers take memory for whatever size a file
/// claims. Here every size is compared with the bytes that are left before anything is allocated,
/// and lists of lists count at least one byte for each element.
class ManifestReader {
 public:
  explicit ManifestReader(std::span<const std::byte> bytes)
      : source_(bytes), stream_(&source_), archive_(stream_) {}

  /// A number of elements of at least `element` bytes each, which must still be there.
  std::size_t size(std::size_t element) {
    std::uint64_t count = 0;
    archive_(count);
    if (count > source_.remaining() / element)
      throw DataError(concat({"checkpoint: damaged: ", count, " elements are announced where ",
                              source_.remaining(), " bytes are left"}));
    return static_cast<std::size_t>(count);
  }

  /// Throws DataError when something is left.
  void expect_end() const {
    if (source_.remaining() != 0)
      throw DataError(concat({"checkpoint: damaged: ", source_.remaining(), " bytes too many"}));
  }

  void operator()(std::string& text) { sequence(text); }
  template <class E>
  void operator()(std::vector<E>& values) {
    if constexpr (std::is_arithmetic_v<E> || std::is_same_v<E, std::byte>) {
      sequence(values);
    } else {
      const std::size_t count = size(1);
      for (std::size_t i = 0; i < count; ++i) (*this)(values.emplace_back());
    }
  }
  template <class N>
    requires std::is_arithmetic_v<N>
  void operator()(N& number) {
    archive_(number);
  }
  void operator()(ArrayEntry& entry) {
    (*this)(entry.name);
    (*this)(entry.scalar);
    (*this)(entry.extents);
    archive_(entry.size);
    archive_(entry.crc);
  }
  void operator()(State& state) {
    const std::size_t count = size(1);
    for (std::size_t i = 0; i < count; ++i) {
      std::string name;
      (*this)(name);
      std::uint8_t type = 0;
      archive_(type);
      put<0>(state, name, type);
    }
  }

 private:
  template <std::size_t I>
  void put(State& state, const std::string& name, std::uint8_t type) {
    if constexpr (I < std::variant_size_v<State::Value>) {
      if (type != I) return put<I + 1>(state, name, type);
      std::variant_alternative_t<I, State::Value> value{};
      (*this)(value);
      state.put(name, std::move(value));
    } else {
      throw DataError(
          concat({"checkpoint: entry ", in_quotes(name), " has the unknown type ", type}));
    }
  }

  template <class C>
  void sequence(C& values) {
    using E = typename C::value_type;
    values.resize(size(sizeof(E)));
    if constexpr (sizeof(E) == 1)
      archive_(cereal::binary_data(values.data(), values.size()));
    else
      for (E& value : values) archive_(value);
  }

  ByteSource source_;
  std::istream stream_;
  cereal::PortableBinaryInputArchive archive_;
};

/// Calls f(name, field) for each field of the section "model".
template <class Saved, class F>
void each_model_field(Saved& saved, F f) {
  f("scalar", saved.scalar);
  f("signature", saved.signature);
  f("iterations", saved.iterations);
  f("learning_rate", saved.learning_rate);
  f("seed", saved.seed);
  f("world_size", saved.world_size);
  f("previous_learning_rate", saved.previous_learning_rate);
  f("accumulated_steps", saved.accumulated_steps);
  f("accumulated_rows", saved.accumulated_rows);
  f("shows_averages", saved.shows_averages);
}

/// The same for the fields of a loss scale, which only files of runs with one have.
template <class Saved, class F>
void each_scale_field(Saved& saved, F f) {
  f("loss_scale", saved.loss_scale);
  f("finite_steps", saved.finite_steps);
}

/// The same for the section "fit".
template <class Saved, class F>
void each_fit_field(Saved& saved, F f) {
  f("fit", saved.fit);
  f("epoch", saved.epoch);
  f("step", saved.step);
  f("data_iteration", saved.data_iteration);
  f("data_position", saved.data_position);
  f("global_batch", saved.global_batch);
  f("running", saved.running);
  f("is_epoch_open", saved.is_epoch_open);
  f("samples", saved.samples);
  f("samples_checksum", saved.samples_checksum);
  f("epoch_steps", saved.epoch_steps);
  f("pipeline", saved.pipeline);
  f("class_weight", saved.class_weight);
}

/// The lists of arrays, in the order of the file.
template <class Saved>
auto array_lists(Saved& saved) {
  return std::array{&saved.parameters, &saved.state, &saved.slots};
}

/// Throws DataError naming the section unless the record has such an entry.
template <class T>
void take_entry(const State& record, std::string_view section, std::string_view name, T& field) {
  try {
    field = record.get<T>(name);
  } catch (const Error& error) {
    throw DataError(concat({"checkpoint: section ", in_quotes(section), ": ", error.what()}));
  }
}

template <class Writer>
void write_sections(Writer& writer, const TrainingState& saved) {
  State model, fit;
  each_model_field(saved,
                   [&](std::string_view name, const auto& field) { model.put(name, field); });
  if (saved.loss_scale > 0)
    each_scale_field(saved,
                     [&](std::string_view name, const auto& field) { model.put(name, field); });
  each_fit_field(saved, [&](std::string_view name, const auto& field) { fit.put(name, field); });
  const auto write = [&](const char* name, const std::vector<State>& records) {
    writer(std::string(name));
    writer(records);
  };
  writer(std::uint64_t{4});
  write("model", {model});
  write("fit", {fit});
  write("callbacks", saved.callbacks);
  write("objects", saved.objects);
}

/// Throws DataError when a section or an entry is missing.
template <class Reader>
void read_sections(Reader& reader, TrainingState& saved) {
  std::vector<State> model, fit;
  for (std::size_t sections = reader.size(1); sections > 0; --sections) {
    std::string name;
    std::vector<State> records;
    reader(name);
    reader(records);
    if (name == "model")
      model = std::move(records);
    else if (name == "fit")
      fit = std::move(records);
    else if (name == "callbacks")
      saved.callbacks = std::move(records);
    else if (name == "objects")
      saved.objects = std::move(records);
  }
  if (model.size() != 1 || fit.size() != 1)
    throw DataError(concat(
        {"checkpoint: damaged: expected one record in each of the sections 'model' and 'fit', got ",
         model.size(), " and ", fit.size()}));
  each_model_field(saved, [&](std::string_view name, auto& field) {
    take_entry(model[0], "model", name, field);
  });
  if (model[0].contains("loss_scale"))
    each_scale_field(saved, [&](std::string_view name, auto& field) {
      take_entry(model[0], "model", name, field);
    });
  each_fit_field(
      saved, [&](std::string_view name, auto& field) { take_entry(fit[0], "fit", name, field); });
}

}}}  // namespace lockstep::detail
