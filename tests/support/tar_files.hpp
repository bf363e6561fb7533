// Tar files of a test's own making.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace lockstep_test::tar {

inline void put_octal(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  header.replace(at, static_cast<std::size_t>(digits), text);
}
inline void put_checksum(std::string& header) {
  header.replace(148, 8, "        ");
  std::uint64_t sum = 0;
  for (const char c : header.substr(0, 512)) sum += static_cast<unsigned char>(c);
  put_octal(header, 148, 6, sum);
  header[154] = '\0';
}
/// A member of a ustar file.
inline std::string member(const std::string& name, const std::string& data, char type = '0') {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  put_octal(block, 100, 7, 0644);
  put_octal(block, 124, 11, data.size());
  block[156] = type;
  block.replace(257, 8, std::string("ustar\00000", 8));
  put_checksum(block);
  return block + data + std::string((512 - data.size() % 512) % 512, '\0');
}
inline const std::string end_blocks(1024, '\0');

}  // namespace lockstep_test::tar
