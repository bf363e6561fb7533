// The variables of a model and its optimizer, which the replicas of a process share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/saved_arrays.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
  /// Makes the parameters zeros in memory from `allocate` (see Arena).
  template <class Allocate>
  void allocate_parameters(Allocate&& allocate) {
    parameters_ = Arena<T>(variables, allocate);
  }
  /// The values of `arena` become the parameters, and it gets the former ones. Views of the two show the other then.
  void swap_parameters(Arena<T>& arena) noexcept { std::swap(parameters_, arena); }

  [[nodiscard]] const std::vector<Arena<T>>& slots() const noexcept { return slots_; }
  [[nodiscard]] static std::vector<std::string> names() { return Net::template variable_names<In>(); }

  double learning_rate = 0;     ///< in force
  std::int64_t iterations = 0;  ///< updates made
  std::uint64_t seed = 0;
  /// Number of the pass over the training data that the next fit begins with: passes are counted
  /// over all fits.
  std::int64_t next_pass = 0;

  /// CRC-32C over all parameters in canonical order and layout: equal for equal bits, whatever the strategy.
  [[nodiscard]] std::uint32_t parameters_crc32c() const {
    std::uint32_t crc = 0;
    for (const std::span<T> slice : parameters_.slices()) crc = crc32c(std::as_bytes(slice), crc);
    return crc;
  }

  void save(TrainingState& saved) const {
    saved.scalar = scalar_name<T>();
    saved.iterations = iterations;
    saved.learning_rate = learning_rate;
    saved.seed = seed;
    saved.data_iteration = next_pass;
    save_arrays(saved.parameters, 0, arrays(parameters_));
    for (std::size_t i = 0; i < slots_.size(); ++i)
      save_arrays(saved.slots, i * variables.size(), arrays(slots_[i]), concat({"/slot_", i}));
  }

  /// Throws ConfigurationError, having changed nothing, when `saved` belongs to another model.
  void restore(const TrainingState& saved) {
    if (saved.scalar != scalar_name<T>())
      throw ConfigurationError(
          concat({"restore: the saved state is of ", saved.scalar, ", this model of ", scalar_name<T>()}));
    const std::size_t count = variables.size();
    if (saved.parameters.size() != count || saved.slots.size() != slots_.size() * count)
      throw ConfigurationError(
          concat({"restore: the saved state has ", saved.parameters.size(), " parameter arrays and ",
                  saved.slots.size(), " optimizer arrays, this model has ", count, " and ", slots_.size() * count,
                  ": it belongs to another program"}));
    for (const bool check_only : {true, false}) {
      load_arrays(saved.parameters, 0, arrays(parameters_), check_only);
      for (std::size_t i = 0; i < slots_.size(); ++i)
        load_arrays(saved.slots, i * count, arrays(slots_[i]), check_only);
    }
    iterations = saved.iterations;
    learning_rate = saved.learning_rate;
    seed = saved.seed;
    next_pass = saved.data_iteration + (saved.data_position > 0 ? 1 : 0);  // a new one
  }

 private:
  static ArrayList arrays(const Arena<T>& arena) { return array_list<T>(variables, names(), arena.slices()); }

  Arena<T> parameters_;
  std::vector<Arena<T>> slots_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
