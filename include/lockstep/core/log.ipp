#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "lockstep/core/error.hpp"
#include "lockstep/core/json_text.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is known of this process.
struct LogPlace {
  std::mutex mutex{};
  int rank = -1;
  std::string run{};

  static LogPlace& get() {
    static LogPlace place;
    return place;
  }
};

LOCKSTEP_INLINE bool logs_are_structured() noexcept {
  static const bool structured = [] {
    const char* const form = std::getenv("LOCKSTEP_LOG");
    return form != nullptr && std::string_view(form) == "json";
  }();
  return structured;
}

LOCKSTEP_INLINE void check_log_form() {
  const char* const form = std::getenv("LOCKSTEP_LOG");
  if (form == nullptr || *form == '\0') return;
  for (const std::string_view known : {"text", "json"})
    if (form == known) return;
  throw ConfigurationError(
      concat({"the environment variable LOCKSTEP_LOG is '", printable(form, 40),
              "', which is no form of the log; use text or json"}));
}

LOCKSTEP_INLINE void set_log_place(int rank, std::string_view run) {
  LogPlace& place = LogPlace::get();
  const std::lock_guard lock(place.mutex);
  place.rank = rank;
  place.run = run;
}

/// "2026-11-22T18:30:00.123Z"
LOCKSTEP_INLINE std::string utc_text(std::chrono::system_clock::time_point time) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S.", &parts);
  const std::string thousandths = concat({1000 + since % 1000});
  return concat({date, std::string_view(thousandths).substr(1), "Z"});
}

LOCKSTEP_INLINE std::string structured_log_line(std::string_view text) {
  std::string_view level = "info";
  for (const std::string_view each : {"warning", "error"})
    if (text.starts_with(each) && text.substr(each.size()).starts_with(": ")) {
      level = each;
      text.remove_prefix(each.size() + 2);
      break;
    }
  LogPlace& place = LogPlace::get();
  const std::lock_guard lock(place.mutex);
  const char* const given = std::getenv("LOCKSTEP_RUN_ID");
  const std::string run = given != nullptr ? given : place.run;
  return concat({structured_log_begin, utc_text(std::chrono::system_clock::now()),
                 "\",\"level\":\"", level, "\"",
                 place.rank < 0 ? "" : concat({",\"rank\":", place.rank}),
                 run.empty() ? "" : concat({",\"run\":", json_text(run)}),
                 ",\"message\":", json_text(text), "}\n"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE void log_line(std::string_view text) noexcept {
  try {
    std::string line;
    if (detail::logs_are_structured()) {
      line = detail::structured_log_line(text);
    } else {
      line = "lockstep: ";
      line += text;
      line += '\n';
    }
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // out of memory: the program goes on without the line
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
