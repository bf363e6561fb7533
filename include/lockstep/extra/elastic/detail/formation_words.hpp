// What a Formation says to people.
#pragma once

#include <string>
#include <vector>

#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What is wrong with a claim that does not fit this process's place in the cluster.
template <class Claim, class Place>
[[nodiscard, gnu::cold]] std::string difference(const Claim& claim, const Place& own) {
  const auto text = [](const auto& place) {
    return concat({"worker ", place.slot, " of ", place.slots, ", with min_workers ",
                   place.min_workers, place.build.empty() ? "" : ", ", place.build});
  };
  return concat({"claims to be ", text(claim), "; this is ", text(own)});
}

/// Which workers are here, and which are missing.
[[nodiscard, gnu::cold]] inline std::string roll_call(int slots, FunctionRef<bool(int)> is_here) {
  std::string here, missing;
  for (int slot = 0; slot < slots; ++slot) (is_here(slot) ? here : missing) += concat({" ", slot});
  return concat({"of the cluster's ", slots, " workers, there are here:", here,
                 "; missing:", missing.empty() ? " none" : missing});
}

/// Behind a roll call, why these form no world. `last`: the worlds that may be the last one.
[[nodiscard, gnu::cold]] inline std::string what_it_takes(const std::vector<World>& last,
                                                          int min_workers) {
  return concat(
      {last.empty()
           ? concat({"; to begin takes all of them, or, after a while, more than half, at least ",
                     min_workers, " (min_workers)"})
           : concat({"; to go on takes at least ", min_workers,
                     " (min_workers), and more than half of the last world, workers ",
                     last.back().members(), ", or all of the cluster"}),
       ". Start those that are missing again, or all workers"});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
