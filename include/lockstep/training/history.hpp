// History: what fit returns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// One value per epoch for each key of the logs, as in Keras's History, for the epochs that one
/// call of fit has completed. (A saved state has no history: where fit resumes a run, the epochs
/// before the interruption are missing.) `history["loss"]` are the values of one key, a
/// `std::vector<double>`; `for (const auto& [name, values] : history)` goes through all keys, in
/// the order of the logs; `history.epoch` are the epochs' numbers.
class History {
 public:
  /// The epochs that were run, counted from 0. Empty when a restored training had nothing left to
  /// do, or this worker came back when the others had made this fit: neither is an error.
  std::vector<int> epoch;

  void append(int epoch_number, const Logs& logs);

  /// Forgets the epochs from `first` on, which are done again.
  void truncate(int first);

  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name) != nullptr;
  }

  /// The values of one key ("loss", "val_accuracy"). Throws Error, naming the keys that there are,
  /// when it is missing, as all are when no epoch was run.
  [[nodiscard]] const std::vector<double>& operator[](std::string_view name) const;

  [[nodiscard]] auto begin() const noexcept { return history_.begin(); }
  [[nodiscard]] auto end() const noexcept { return history_.end(); }

 private:
  [[nodiscard]] const std::vector<double>* find(std::string_view name) const noexcept;
  std::size_t series(const std::string& name);

  std::vector<std::pair<std::string, std::vector<double>>> history_;
  std::vector<std::vector<int>> epochs_;  // of each series' values
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/history.ipp"
#endif
