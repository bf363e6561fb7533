#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE const double* Logs::find(std::string_view name) const noexcept {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

LOCKSTEP_INLINE double Logs::at(std::string_view name) const {
  if (const double* value = find(name)) return *value;
  std::string available;
  for (const Entry& entry : entries_) available += (available.empty() ? "" : ", ") + entry.first;
  throw Error("Logs have no '" + std::string(name) +
              "'; available: " + (available.empty() ? "nothing" : available));
}

LOCKSTEP_INLINE void Logs::set(std::string_view name, double value) {
  for (Entry& entry : entries_)
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  entries_.emplace_back(name, value);
}

}}  // namespace lockstep
