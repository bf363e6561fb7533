// State: a small record of named values, in which an object saves itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a callback or another object of the program saves, and restores after a restart: named
/// whole numbers, floating-point numbers, texts, and lists of numbers. `put` belongs into
/// save(State&) const, `get` into restore(const State&).
class State {
 public:
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                             std::vector<double>>;

  template <class T>
  void put(std::string_view name, T&& value) {
    using V = std::decay_t<T>;
    if constexpr (std::is_integral_v<V> || std::is_enum_v<V>)
      values_.insert_or_assign(std::string(name), Value(static_cast<std::int64_t>(value)));
    else if constexpr (std::is_floating_point_v<V>)
      values_.insert_or_assign(std::string(name), Value(static_cast<double>(value)));
    else
      values_.insert_or_assign(std::string(name), Value(std::forward<T>(value)));
  }

  /// Throws Error when `name` is missing or holds another type.
  template <class T>
  [[nodiscard]] T get(std::string_view name) const {
    using Stored = std::conditional_t<std::is_integral_v<T> || std::is_enum_v<T>, std::int64_t,
                                      std::conditional_t<std::is_floating_point_v<T>, double, T>>;
    const auto it = values_.find(name);
    if (it == values_.end()) throw Error("saved state has no entry '" + std::string(name) + "'");
    const Stored* stored = std::get_if<Stored>(&it->second);
    if (stored == nullptr)
      throw Error("saved state: entry '" + std::string(name) + "' has another type");
    return static_cast<T>(*stored);
  }

  [[nodiscard]] bool contains(std::string_view name) const {
    return values_.find(name) != values_.end();
  }
  [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
  [[nodiscard]] const auto& values() const noexcept { return values_; }

  friend bool operator==(const State&, const State&) = default;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}}  // namespace lockstep
