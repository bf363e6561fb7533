#pragma once

#include "lockstep/training/history.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void History::append(int epoch_number, const Logs& logs) {
  epoch.push_back(epoch_number);
  for (const auto& [name, value] : logs) {
    const std::size_t i = series(name);
    history_[i].second.push_back(value);
    epochs_[i].push_back(epoch_number);
  }
}

LOCKSTEP_INLINE void History::truncate(int first) {
  for (std::size_t i = 0; i < history_.size(); ++i)
    for (; !epochs_[i].empty() && epochs_[i].back() >= first; epochs_[i].pop_back())
      history_[i].second.pop_back();
  while (!epoch.empty() && epoch.back() >= first) epoch.pop_back();
}

LOCKSTEP_INLINE const std::vector<double>& History::operator[](std::string_view name) const {
  if (const auto* values = find(name)) return *values;
  std::string available;
  for (const auto& [key, values] : history_) available += (available.empty() ? "" : ", ") + key;
  throw Error("History has no '" + std::string(name) +
              "'; available: " + (available.empty() ? "nothing, as no epoch was run" : available));
}

LOCKSTEP_INLINE const std::vector<double>* History::find(std::string_view name) const noexcept {
  for (const auto& [key, values] : history_)
    if (key == name) return &values;
  return nullptr;
}

LOCKSTEP_INLINE std::size_t History::series(const std::string& name) {
  for (std::size_t i = 0; i < history_.size(); ++i)
    if (history_[i].first == name) return i;
  history_.emplace_back(name, std::vector<double>{});
  epochs_.emplace_back();
  return history_.size() - 1;
}

}}  // namespace lockstep
