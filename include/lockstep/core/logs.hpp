// Named figures that the training loop reports.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A small map from name to value, in order: the loss, the metrics, then val_*. Callbacks may
/// change it; later callbacks and History see the change. `logs["loss"]` and `logs.at("loss")`
/// throw where there is none, `contains(name)` asks, `set(name, value)` adds or changes one, and
/// `for (const auto& [name, value] : logs)` goes through all.
class Logs {
 public:
  using Entry = std::pair<std::string, double>;

  [[nodiscard]] const double* find(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name) != nullptr;
  }

  /// The same in both spellings. Throws Error, which lists the names that exist, when `name` is
  /// missing.
  [[nodiscard]] double at(std::string_view name) const;
  [[nodiscard]] double operator[](std::string_view name) const { return at(name); }

  void set(std::string_view name, double value);

  void clear() noexcept { entries_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/logs.ipp"
#endif
