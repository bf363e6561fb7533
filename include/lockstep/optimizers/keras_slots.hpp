// KerasSlots: where Keras's optimizers keep what ours have in slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A variable of Keras's optimizer: what it is of a slot.
struct KerasSlot {
  enum class Part : std::uint8_t {
    whole,
    rows,          ///< the factors of the rows, with which a slot that has factors begins
    columns,       ///< the factors of the columns, which stand behind them
    row_means,     ///< the means over the last dimension of a slot that is whole
    column_means,  ///< the means over the dimension before the last one
    unread,        ///< zeros, as many as the variable has: Keras never reads them
    number,        ///< a single one, which follows from the number of updates
  };

  std::size_t slot = 0;
  Part part = Part::whole;
  double added = 0;        ///< Keras's elements are ours and this (of a number: itself)
  bool has_rates = false;  ///< ours is scaled where the learning rate changes, Keras's is not
  std::size_t variable = 0;
};

/// The list of an optimizer's keras_slots(), which adds to it in Keras's order.
class KerasSlots {
 public:
  /// `order`: the numbers of the variables as Keras orders them; the other two lists have them in
  /// ours, and must outlive this. `iterations`: updates made.
  KerasSlots(std::span<const Variable> variables, std::span<const std::string> names,
             std::vector<std::size_t> order, std::int64_t iterations);

  [[nodiscard]] std::span<const Variable> variables() const noexcept { return variables_; }
  [[nodiscard]] std::span<const std::string> names() const noexcept { return names_; }
  [[nodiscard]] std::span<const std::size_t> order() const noexcept { return order_; }
  [[nodiscard]] std::int64_t iterations() const noexcept { return iterations_; }

  void of_variable(std::size_t variable, KerasSlot slot);
  /// For each variable, these slots one after the other.
  void each_variable(std::initializer_list<KerasSlot> slots);
  void number(double value);

  [[nodiscard]] std::span<const KerasSlot> list() const noexcept { return list_; }

  std::string_view optimizer = {};  ///< its name; empty where Keras has none like it

 private:
  std::span<const Variable> variables_;
  std::span<const std::string> names_;
  std::vector<std::size_t> order_;
  std::int64_t iterations_;
  std::vector<KerasSlot> list_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/keras_slots.ipp"
#endif
