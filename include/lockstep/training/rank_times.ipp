#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/rank_times.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string rank_times_text(std::span<const RankTime> ranks, int epoch,
                                            std::int64_t steps, int local_size) {
  const auto milliseconds = [&](double seconds) {
    return number_text(1000 * seconds / static_cast<double>(std::max<std::int64_t>(1, steps)),
                       NumberForm::fixed, 2);
  };
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranks[a].compute > ranks[b].compute;
  });
  const std::size_t slowest = order.front();
  const double wire =
      std::min_element(ranks.begin(), ranks.end(), [](const RankTime& a, const RankTime& b) {
        return a.collective < b.collective;
      })->collective;
  if (ranks.size() > 8)
    order = {order[0], order[1], order[2], order[3], order.back()};
  else
    std::sort(order.begin(), order.end());

  std::string text = concat({"replicas in epoch ", epoch + 1, ", ms a step:"});
  for (const std::size_t r : order)
    text += concat({" ", replica_name(r, local_size), " compute ", milliseconds(ranks[r].compute),
                    " wait ", milliseconds(ranks[r].collective - wire), ","});
  return text +
         concat({" wire ", milliseconds(wire), "; slowest: ", replica_name(slowest, local_size)});
}

LOCKSTEP_INLINE std::vector<RankTime> gather_rank_times(AnyCollective& collective,
                                                        Trace::Clock::duration whole,
                                                        Trace::Clock::duration in_collective) {
  const auto seconds = [](Trace::Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const RankTime mine{.compute = seconds(whole - in_collective),
                      .collective = seconds(in_collective)};
  if (collective.size() == 1) return {mine};
  std::vector<RankTime> all(static_cast<std::size_t>(collective.size()));
  collective.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
