#pragma once

#include <algorithm>
#include <array>

#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/training/whole_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The checksums of a rank, including those that it shares with the first replica of its worker.
using WholeChecksums = std::array<std::uint32_t, 4>;

LOCKSTEP_INLINE std::vector<WholeChecksums> whole_checksums(std::span<const ReplicaChecksums> ranks,
                                                            std::size_t local_size) {
  std::vector<WholeChecksums> whole;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const ReplicaChecksums& leader = ranks[rank - rank % local_size];
    whole.push_back({leader.parameters, leader.slots, leader.counters, ranks[rank].untrained});
  }
  return whole;
}

/// "worker 1, worker 4 and worker 5"
LOCKSTEP_INLINE std::string names_text(const std::vector<std::size_t>& ranks,
                                       std::size_t local_size) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += concat({i == 0                  ? ""
                    : i + 1 == ranks.size() ? " and "
                    : local_size > 1        ? "; "
                                            : ", ",
                    replica_name(ranks[i], static_cast<int>(local_size))});
  return text;
}

LOCKSTEP_INLINE std::optional<std::string> replica_difference(
    std::span<const ReplicaChecksums> ranks, std::size_t local_size) {
  const std::vector<WholeChecksums> whole = whole_checksums(ranks, local_size);
  const auto alike = [&](const WholeChecksums& one) {
    return std::count(whole.begin(), whole.end(), one);
  };
  const WholeChecksums common =
      *std::max_element(whole.begin(), whole.end(),
                        [&](const auto& a, const auto& b) { return alike(a) < alike(b); });
  const auto majority = static_cast<std::size_t>(alike(common));
  if (majority == ranks.size()) return std::nullopt;

  constexpr std::array<std::string_view, 4> names{"parameters", "the optimizer's slots",
                                                  "the learning rate or the number of updates",
                                                  "untrained state"};
  std::string what;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::any_of(whole.begin(), whole.end(),
                    [&](const WholeChecksums& one) { return one[i] != common[i]; }))
      what += concat({what.empty() ? "" : ", ", names[i]});
  const bool is_clear = 2 * majority > ranks.size();
  std::vector<std::size_t> listed;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!is_clear || whole[rank] != common) listed.push_back(rank);
  if (is_clear)
    return concat({names_text(listed, local_size), listed.size() == 1 ? " differs" : " differ",
                   " from the ", majority, " others, which are equal, in: ", what});
  return concat({names_text(listed, local_size), " differ, and there is no majority, in: ", what});
}

}}}  // namespace lockstep::detail
