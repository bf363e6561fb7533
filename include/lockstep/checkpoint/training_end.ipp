#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/training_end.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

inline constexpr const char* training_ended_name = "/training_ended";

}  // namespace detail

LOCKSTEP_INLINE void mark_training_ended(const std::string& directory) {
  const std::string_view text = "Training has ended: no checkpoints will follow.\n";
  write_file_atomically(directory + detail::training_ended_name, std::as_bytes(std::span(text)));
}

LOCKSTEP_INLINE void mark_training_begun(const std::string& directory) {
  remove_file(directory + detail::training_ended_name);
}

LOCKSTEP_INLINE bool training_has_ended(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory + detail::training_ended_name, ignored);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
