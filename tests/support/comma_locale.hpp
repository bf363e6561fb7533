// A program whose locale writes 1.234,5.
#pragma once

#include <array>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace lockstep_test {

/// While it lives, numbers of printf and of streams have a comma for the point and points between
/// thousands. No locale need be installed: it writes one for glibc, whose form of a file LC_NUMERIC
/// is a mark, the count of fields, where each begins, and the fields.
class CommaLocale {
 public:
  CommaLocale() : former_(std::locale::global(std::locale(std::locale(), new Comma))) {
    const std::vector<std::string> fields{std::string(",\0", 2),      std::string(".\0", 2),
                                          std::string("\3\3\0\0", 4), std::string(",\0\0\0", 4),
                                          std::string(".\0\0\0", 4),  std::string("UTF-8\0", 6)};
    const auto number = [](std::uint32_t value) {
      std::string bytes(4, '\0');
      for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (8 * i) & 0xFFU);
      return bytes;
    };
    std::string head = number(0x20031115 ^ LC_NUMERIC) +
                       number(static_cast<std::uint32_t>(fields.size())),
                rest;
    for (const std::string& field : fields) {
      head += number(static_cast<std::uint32_t>(8 + 4 * fields.size() + rest.size()));
      rest += field;
    }
    const std::string file = head + rest;
    std::filesystem::create_directories(folder_.path("xx_XX"));
    folder_.write("xx_XX/LC_NUMERIC", {file.begin(), file.end()});
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    for (const char* const name : {"xx_XX", "de_DE.UTF-8", "de_DE.utf8", "de_DE"})
      if (std::setlocale(LC_NUMERIC, name) != nullptr) break;
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%.1f", 0.5);
    has_printf_ = std::string(text.data()) == "0,5";
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;
  ~CommaLocale() {
    std::locale::global(former_);
    std::setlocale(LC_NUMERIC, "C");
    ::unsetenv("LOCPATH");
  }

  /// Whether printf follows it, too: with glibc, or where the locale de_DE is installed.
  [[nodiscard]] bool has_printf() const noexcept { return has_printf_; }

 private:
  struct Comma : std::numpunct<char> {
    [[nodiscard]] char do_decimal_point() const override { return ','; }
    [[nodiscard]] char do_thousands_sep() const override { return '.'; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };

  TemporaryFolder folder_;
  std::locale former_;
  bool has_printf_ = false;
};

}  // namespace lockstep_test
