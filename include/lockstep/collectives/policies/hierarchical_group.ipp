#pragma once

#include <cstdint>

#include "lockstep/collectives/policies/hierarchical_group.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE void compare_local_sizes(
    int local_size, int worker, int workers,
    FunctionRef<void(std::span<const std::byte> mine, std::span<std::byte> all)> all_gather) {
  const std::int64_t mine = local_size;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(workers));
  all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(sizes)));
  for (std::size_t other = 0; other < sizes.size(); ++other)
    if (sizes[other] != mine)
      throw ConfigurationError(
          concat({"all workers must have the same number of replicas: worker ", other, " has ",
                  sizes[other], ", worker ", worker, " has ", mine}));
}

LOCKSTEP_INLINE void append(std::vector<NumberSpan>& arrays, NumberSpan array) {
  arrays.push_back(array);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
