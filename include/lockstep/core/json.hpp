// JSON, read event by event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// null, a truth value, a negative whole number, another whole number, another number, a text.
using JsonScalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string>;

/// Receives what stands in a text, in its order. What a member throws ends the reading.
class JsonEvents {
 public:
  virtual void begin_object() = 0;
  virtual void key(std::string name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void value(JsonScalar value) = 0;

 protected:
  ~JsonEvents() = default;
};

/// The text is no JSON, has a number beyond a double, or is nested deeper than `deepest_json`.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t deepest_json = 500;

/// Throws JsonError.
void read_json(std::string_view text, JsonEvents& events);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/json.ipp"
#endif
