// The one place that knows the library that reads JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/core/json.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The library's events, without its values, whose code would be most of what programs compile.
struct JsonSax {
  JsonEvents& events;
  std::size_t depth = 0;

  bool null() { return value(nullptr); }
  bool boolean(bool truth) { return value(truth); }
  bool number_integer(std::int64_t number) { return value(number); }
  bool number_unsigned(std::uint64_t number) { return value(number); }
  bool number_float(double number, const std::string&) { return value(number); }
  bool string(std::string& text) { return value(std::move(text)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // (no text has any)
  bool start_object(std::size_t) { return deeper(), events.begin_object(), true; }
  bool key(std::string& name) { return events.key(std::move(name)), true; }
  bool end_object() { return --depth, events.end_object(), true; }
  bool start_array(std::size_t) { return deeper(), events.begin_array(), true; }
  bool end_array() { return --depth, events.end_array(), true; }
  template <class Exception>
  bool parse_error(std::size_t byte, const std::string&, const Exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": what follows the
    // bracket is for people.
    const std::string_view what = error.what();
    const std::size_t end = what.find("] ");
    throw JsonError(concat({what.substr(end == what.npos ? 0 : end + 2), " (byte ", byte, ")"}));
  }

 private:
  /// Receivers that call themselves for what stands within have a bound.
  void deeper() {
    if (++depth > deepest_json)
      throw JsonError(concat({"nested deeper than ", deepest_json, " levels"}));
  }
  bool value(JsonScalar scalar) { return events.value(std::move(scalar)), true; }
};

LOCKSTEP_INLINE void read_json(std::string_view text, JsonEvents& events) {
  JsonSax sax{events};
  (void)nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &sax);
}

}}}  // namespace lockstep::detail
