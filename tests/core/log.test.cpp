#include "lockstep/core/log.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "lockstep/core/error.hpp"
#include "support/captured_stderr.hpp"

TEST_CASE("log_line: one line each, with the library's name, on standard error") {
  const lockstep_test::CapturedStderr captured;
  lockstep::log_line("the first");
  lockstep::log_line("");
  CHECK(captured.text() == "lockstep: the first\nlockstep: \n");
}

TEST_CASE("log_line: a structured line has time, level, task, rank, run and text") {
  using lockstep::detail::set_log_place;
  using lockstep::detail::structured_log_line;
  set_log_place({});
  const auto without_time = [](const std::string& line) {
    const std::string form = R"({"time":"2026-11-22T18:30:00.123Z",)";
    REQUIRE(line.size() > form.size());
    for (std::size_t i = 0; i < form.size(); ++i) {
      const bool is_digit = form[i] >= '0' && form[i] <= '9';
      CHECK((is_digit ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i]));
    }
    return line.substr(form.size());
  };
  CHECK(without_time(structured_log_line("a \"text\"\n")) ==
        "\"level\":\"info\",\"message\":\"a \\\"text\\\"\\u000a\"}\n");
  set_log_place({.task = "worker", .index = 2, .rank = 3, .run = "job \\1"});
  CHECK(without_time(structured_log_line("low", lockstep::LogLevel::warning)) ==
        "\"level\":\"warning\",\"task\":\"worker\",\"index\":2,\"rank\":3,"
        "\"run\":\"job \\\\1\",\"message\":\"low\"}\n");
  CHECK(without_time(structured_log_line("e", lockstep::LogLevel::error))
            .starts_with("\"level\":\"error\",\"task\""));
  ::setenv("LOCKSTEP_RUN_ID", "7", 1);
  CHECK(without_time(structured_log_line("given")).find("\"run\":\"7\"") != std::string::npos);
  ::setenv("LOCKSTEP_RUN_ID", "", 1);
  CHECK(without_time(structured_log_line("empty")).find("\"run\":\"job") != std::string::npos);
  ::unsetenv("LOCKSTEP_RUN_ID");
  set_log_place({.task = "ps", .index = 0});
  CHECK(without_time(structured_log_line("served")) ==
        "\"level\":\"info\",\"task\":\"ps\",\"index\":0,\"message\":\"served\"}\n");
  set_log_place({});
  const std::string foreign = structured_log_line("\xc2\x9b and \xff");  // what a terminal acts on
  CHECK(foreign.find_first_of("\x9b\xff") == std::string::npos);
  CHECK_FALSE(lockstep::detail::logs_are_structured());  // LOCKSTEP_LOG is not set
}

TEST_CASE("log_line: the place is looked for once, at the first structured line") {
  using lockstep::detail::find_log_place_by;
  using lockstep::detail::LogPlace;
  using lockstep::detail::set_log_place;
  using lockstep::detail::structured_log_line;
  const auto has = [](const std::string& text) {
    return structured_log_line("m").find(text) != std::string::npos;
  };
  static int asked = 0;
  set_log_place({});
  find_log_place_by([] {
    ++asked;
    CHECK(structured_log_line("while it is looked for").find("rank") == std::string::npos);
    return LogPlace{.task = "worker", .index = 5, .rank = 6};
  });
  CHECK(asked == 0);
  CHECK(has("\"rank\":6,"));
  CHECK(has("\"index\":5,"));
  CHECK(asked == 1);
  set_log_place({.task = "chief", .index = 0, .rank = 0});
  CHECK(has("\"rank\":0,"));
  // What the program itself has said counts.
  find_log_place_by([] {
    ++asked;
    return LogPlace{.task = "worker", .index = 5, .rank = 6};
  });
  CHECK(has("\"rank\":0,"));
  set_log_place({});
}

TEST_CASE("LOCKSTEP_LOG: text, json or nothing; another value is refused") {
  for (const char* const known : {"text", "json", ""}) {
    ::setenv("LOCKSTEP_LOG", known, 1);
    CHECK_NOTHROW(lockstep::detail::check_log_form());
  }
  for (const char* const wrong : {"jsno", "JSON", "json "}) {
    ::setenv("LOCKSTEP_LOG", wrong, 1);
    const std::string message = "the environment variable LOCKSTEP_LOG is '" + std::string(wrong) +
                                "', which is no form of the log; use text or json";
    CHECK_THROWS_WITH_AS(lockstep::detail::check_log_form(), message.c_str(),
                         lockstep::ConfigurationError);
  }
  ::unsetenv("LOCKSTEP_LOG");
  CHECK_NOTHROW(lockstep::detail::check_log_form());
}
