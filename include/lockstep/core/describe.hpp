// One line of text for an object and its options, for logs and for comparing the workers' programs.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// An option's name and value, as text.
struct Option {
  std::string_view name;
  std::string value;

  // (A template, because text in quotes would otherwise convert to bool.)
  template <std::same_as<bool> Flag>
  Option(std::string_view option, Flag flag) : name(option), value(flag ? "true" : "false") {}
  Option(std::string_view option, double number) : name(option), value(number_text(number)) {}
  Option(std::string_view option, std::int64_t number)
      : name(option), value(std::to_string(number)) {}
  Option(std::string_view option, std::string text) : name(option), value(std::move(text)) {}
};

/// "sgd(learning_rate=0.01, momentum=0)". Objects with equal options give equal text, and no
/// others.
[[nodiscard]] std::string describe(std::string_view name, std::initializer_list<Option> options);

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/describe.ipp"
#endif
