#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What is known of this process.
class KnownLogPlace {
 public:
  static KnownLogPlace& get() {
    static KnownLogPlace known;
    return known;
  }

  void set(LogPlace place) {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
    find_ = nullptr;
  }
  void find_by(LogPlace (*find)()) {
    const std::lock_guard lock(mutex_);
    find_ = find;
  }
  [[nodiscard]] LogPlace place() {
    const std::lock_guard lock(mutex_);
    if (const auto find = std::exchange(find_, nullptr); find != nullptr) {
      LogPlace found = find();
      if (place_.task.empty()) place_ = std::move(found);  // what the program has said counts
    }
    return place_;
  }

 private:
  std::recursive_mutex mutex_{};  // what finds the place may write a line itself
  LogPlace place_{};
  LogPlace (*find_)() = nullptr;  // until it has been asked
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

LOCKSTEP_INLINE void set_log_place(LogPlace place) { KnownLogPlace::get().set(std::move(place)); }

LOCKSTEP_INLINE void find_log_place_by(LogPlace (*find)()) noexcept {
  KnownLogPlace::get().find_by(find);
}

LOCKSTEP_INLINE std::string given_run_name() {
  const char* const given = std::getenv("LOCKSTEP_RUN_ID");
  return given == nullptr ? "" : given;
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

LOCKSTEP_INLINE std::string structured_log_line(std::string_view text, LogLevel level) {
  const std::string_view name = level == LogLevel::info      ? "info"
                                : level == LogLevel::warning ? "warning"
                                                             : "error";
  const LogPlace place = KnownLogPlace::get().place();
  const std::string given = given_run_name();
  const std::string& run = given.empty() ? place.run : given;
  return concat({structured_log_begin, utc_text(std::chrono::system_clock::now()),
                 "\",\"level\":\"", name, "\"",
                 place.task.empty() ? "" : concat({",\"task\":", json_text(place.task)}),
                 place.index < 0 ? "" : concat({",\"index\":", place.index}),
                 place.rank < 0 ? "" : concat({",\"rank\":", place.rank}),
                 run.empty() ? "" : concat({",\"run\":", json_text(run)}),
                 ",\"message\":", json_text(printable_message(text)), "}\n"});
}

/// `mark`: what a line of plain text has before the text.
LOCKSTEP_INLINE void put_log(std::string_view mark, std::string_view text,
                             LogLevel level) noexcept {
  try {
    const std::string line = logs_are_structured()
                                 ? structured_log_line(text, level)
                                 : concat({"lockstep: ", mark, printable_message(text), "\n"});
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // out of memory: the program goes on without the line
  }
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void log_line(std::string_view text, LogLevel level) noexcept {
  detail::put_log("", text, level);
}

LOCKSTEP_INLINE void log_warning(std::string_view text) noexcept {
  detail::put_log("warning: ", text, LogLevel::warning);
}

}}  // namespace lockstep
