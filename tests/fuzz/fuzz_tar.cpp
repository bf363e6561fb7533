// libFuzzer: any bytes are refused by a DataError, or read as samples without touching others.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/datasets/tar_shards.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("tar", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  // Blocks that may be headers get a checksum that fits, as the fuzzer would hardly find one.
  for (std::size_t at = 0; at + 512 <= size; at += 512) {
    if (bytes[at] == '\0') continue;
    bytes.replace(at + 148, 8, "        ");
    unsigned sum = 0;
    for (std::size_t i = at; i < at + 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    bytes.replace(at + 148, 7, digits, 7);
  }
  if (::ftruncate(file, static_cast<off_t>(size)) != 0 ||
      ::pwrite(file, bytes.data(), size, 0) != static_cast<ssize_t>(size))
    return 0;
  try {
    const lockstep::TarFile tar(path);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < tar.size(); ++i) {
      const lockstep::TarSample sample = tar[i];
      if (sample.members().empty()) __builtin_trap();
      for (const auto& member : sample.members())
        for (const std::byte byte : member.bytes) sum += static_cast<std::size_t>(byte);
    }
    static volatile std::size_t kept;
    kept = sum;
  } catch (const lockstep::DataError&) {
  }
  return 0;
}
