// What an exception says, and whether a text contains another.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace lockstep_test {

/// The message of the exception that f throws, which must be an E; else a text that says what
/// happened.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("ANOTHER EXCEPTION: ") + error.what();
  }
  return "NO EXCEPTION";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace lockstep_test
