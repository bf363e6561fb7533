// The variables of a model and its optimizer, which the replicas of a process share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
constexpr const char* scalar_name() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "lockstep: the scalar type of a model is float or double: compile<Net, float>(...)");
  return std::is_same_v<T, float> ? "float32" : "float64";
}

/// "(3, 3, 1, 32)"
inline std::string shape_text(const Variable& variable) {
  std::string text = "(";
  for (std::size_t i = 0; i < variable.rank; ++i) text += (i ? ", " : "") + std::to_string(variable.extents[i]);
  return text + ")";
}

/// Draws the initial values. Each variable has a random stream of its own, so that its values depend on the seed and on
/// its place in the model alone.
template <class T>
void initialize(std::span<const Variable> variables, std::span<const std::span<T>> slices, RandomKey key) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    RandomStream random(key.fold_in(i));
    const Variable& variable = variables[i];
    for (T& value : slices[i])
      value = variable.initializer != nullptr ? static_cast<T>(variable.initializer(random, variable.fans)) : T(0);
  }
}

template <class T>
void save_arrays(std::vector<SavedArray>& out, std::span<const Variable> variables, std::span<const std::span<T>> slices,
                 const std::vector<std::string>& names, const std::string& suffix = {}) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto bytes = std::as_bytes(slices[i]);
    out.push_back({.name = names[i] + suffix,
                   .extents = {variables[i].extents.begin(), variables[i].extents.begin() + variables[i].rank},
                   .bytes = {bytes.begin(), bytes.end()}});
  }
}

/// Copies saved arrays, starting at `first`, into slices. Throws ConfigurationError naming the first array that differs.
template <class T>
void load_arrays(const std::vector<SavedArray>& saved, std::size_t first, std::span<const Variable> variables,
                 std::span<const std::span<T>> slices, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto expected = names[i] + " " + shape_text(variables[i]);
    if (first + i >= saved.size())
      throw ConfigurationError("restore: the saved state has no array for " + expected + ": it belongs to another model");
    const SavedArray& array = saved[first + i];
    const std::span<std::byte> bytes = std::as_writable_bytes(slices[i]);
    if (!std::equal(array.extents.begin(), array.extents.end(), variables[i].extents.begin(),
                    variables[i].extents.begin() + variables[i].rank) ||
        array.bytes.size() != bytes.size())
      throw ConfigurationError("restore: expected " + expected + ", the saved state has '" + array.name +
                               "' of another shape: it belongs to another model");
    std::memcpy(bytes.data(), array.bytes.data(), bytes.size());
  }
}

/// Parameters, optimizer slots and counters of Net.
template <class Net, class T>
class ModelState {
 public:
  using In = typename Net::InputShape;
  static constexpr const auto& variables = Net::template variables<In>;

  explicit ModelState(std::size_t slots) : parameters_(variables) {
    for (std::size_t i = 0; i < slots; ++i) slots_.emplace_back(variables);
  }

  [[nodiscard]] const Arena<T>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const std::vector<Arena<T>>& slots() const noexcept { return slots_; }
  [[nodiscard]] static std::vector<std::string> names() { return Net::template variable_names<In>(); }

  double learning_rate = 0;     ///< in force
  std::int64_t iterations = 0;  ///< updates made
  std::uint64_t seed = 0;

  /// CRC-32C over all parameters in canonical order and layout: equal for equal bits, whatever the strategy.
  [[nodiscard]] std::uint32_t parameters_crc32c() const {
    std::uint32_t crc = 0;
    for (const std::span<T> slice : parameters_.slices()) crc = crc32c(std::as_bytes(slice), crc);
    return crc;
  }

  void save(TrainingState& saved) const {
    const std::vector<std::string> variable_names = names();
    saved.scalar = scalar_name<T>();
    saved.iterations = iterations;
    saved.learning_rate = learning_rate;
    saved.seed = seed;
    save_arrays<T>(saved.parameters, variables, parameters_.slices(), variable_names);
    for (std::size_t i = 0; i < slots_.size(); ++i)
      save_arrays<T>(saved.slots, variables, slots_[i].slices(), variable_names, "/slot_" + std::to_string(i));
  }

  /// Throws ConfigurationError and changes nothing but arrays when `saved` belongs to another model.
  void restore(const TrainingState& saved) {
    if (saved.scalar != scalar_name<T>())
      throw ConfigurationError("restore: the saved state is of " + saved.scalar + ", this model of " + scalar_name<T>());
    if (saved.parameters.size() != variables.size() || saved.slots.size() != slots_.size() * variables.size())
      throw ConfigurationError("restore: the saved state has " + std::to_string(saved.parameters.size()) +
                               " parameter arrays and " + std::to_string(saved.slots.size()) +
                               " optimizer arrays, this model has " + std::to_string(variables.size()) + " and " +
                               std::to_string(slots_.size() * variables.size()) + ": it belongs to another program");
    const std::vector<std::string> variable_names = names();
    load_arrays<T>(saved.parameters, 0, variables, parameters_.slices(), variable_names);
    for (std::size_t i = 0; i < slots_.size(); ++i)
      load_arrays<T>(saved.slots, i * variables.size(), variables, slots_[i].slices(), variable_names);
    iterations = saved.iterations;
    learning_rate = saved.learning_rate;
    seed = saved.seed;
  }

 private:
  Arena<T> parameters_;
  std::vector<Arena<T>> slots_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
