#pragma once

#include <cstdint>

#include "lockstep/saving/chief_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE FileContents unreadable(const Error& error) {
  const auto text = std::as_bytes(std::span(std::string_view(error.what())));
  return {.readable = false, .bytes = {text.begin(), text.end()}};
}

LOCKSTEP_INLINE FileContents read_contents(std::string_view call, const std::string& path, const HeadCheck& check) {
  const HeadCheck naming = [&](std::span<const std::byte> head, std::uint64_t size) {
    naming_file(call, path, [&] { check(head, size); });
  };
  try {
    auto bytes = read_file(path, naming);
    if (!bytes) throw DataError(concat({"cannot read '", path, "': the chief has no such file"}));
    return {.readable = true, .bytes = std::move(*bytes)};
  } catch (const Error& error) {
    return unreadable(error);
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
