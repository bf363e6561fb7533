// Checks of what collective operations are called with, common to all collectives.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

[[gnu::cold, noreturn]] inline void refuse_root(int root, int size) {
  throw Error(concat({"broadcast: there is no rank ", root, " among ", size}));
}
[[gnu::cold, noreturn]] inline void refuse_lengths(std::size_t mine, std::size_t all, int size) {
  throw Error(
      concat({"all_gather: ", size, " ranks of ", mine, " bytes do not fill ", all, " bytes"}));
}

/// Throws Error unless root is one of `size` ranks.
inline void check_root(int root, int size) {
  if (root < 0 || root >= size) refuse_root(root, size);
}

/// Throws Error unless `size` ranks of `mine` bytes fill `all` bytes.
inline void check_lengths(std::size_t mine, std::size_t all, int size) {
  if (all != mine * static_cast<std::size_t>(size)) refuse_lengths(mine, all, size);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
