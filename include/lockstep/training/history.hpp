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

namespace lockstep::inline LOCKSTEP_ABI {

/// One value per epoch for each key of the logs, as Keras's History: of the epochs that one call of
/// fit has ended. (A saved state has no history: where fit resumes a run, the epochs before the
/// interruption are missing.)
class History {
 public:
  /// The epochs that were run, counted from 0. Empty when a restored training had nothing left to
  /// do, which is no error.
  std::vector<int> epoch;

  void append(int epoch_number, const Logs& logs) {
    epoch.push_back(epoch_number);
    for (const auto& [name, value] : logs) {
      const std::size_t i = series(name);
      history_[i].second.push_back(value);
      epochs_[i].push_back(epoch_number);
    }
  }

  /// Forgets the epochs from `first` on, which are done again.
  void truncate(int first) {
    for (std::size_t i = 0; i < history_.size(); ++i)
      for (; !epochs_[i].empty() && epochs_[i].back() >= first; epochs_[i].pop_back())
        history_[i].second.pop_back();
    while (!epoch.empty() && epoch.back() >= first) epoch.pop_back();
  }

  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name) != nullptr;
  }

  /// The values of one key ("loss", "val_accuracy"). Throws Error, naming what there is, when it is
  /// missing, as all are when no epoch was run.
  [[nodiscard]] const std::vector<double>& operator[](std::string_view name) const {
    if (const auto* values = find(name)) return *values;
    std::string available;
    for (const auto& [key, values] : history_) available += (available.empty() ? "" : ", ") + key;
    throw Error("History has no '" + std::string(name) + "'; available: " +
                (available.empty() ? "nothing, as no epoch was run" : available));
  }

  [[nodiscard]] auto begin() const noexcept { return history_.begin(); }
  [[nodiscard]] auto end() const noexcept { return history_.end(); }

 private:
  [[nodiscard]] const std::vector<double>* find(std::string_view name) const noexcept {
    for (const auto& [key, values] : history_)
      if (key == name) return &values;
    return nullptr;
  }
  std::size_t series(const std::string& name) {
    for (std::size_t i = 0; i < history_.size(); ++i)
      if (history_[i].first == name) return i;
    history_.emplace_back(name, std::vector<double>{});
    epochs_.emplace_back();
    return history_.size() - 1;
  }

  std::vector<std::pair<std::string, std::vector<double>>> history_;
  std::vector<std::vector<int>> epochs_;  // of each series' values
};

}  // namespace lockstep::inline LOCKSTEP_ABI
