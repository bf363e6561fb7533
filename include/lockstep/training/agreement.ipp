#pragma once

#include "lockstep/training/agreement.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Takes the first line off a text.
inline std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

LOCKSTEP_INLINE std::optional<std::pair<std::string_view, std::string_view>> first_difference(
    std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string_view line_of_a = take_line(a);
    const std::string_view line_of_b = take_line(b);
    if (line_of_a != line_of_b) return std::pair(line_of_a, line_of_b);
  }
  return std::nullopt;
}

/// "worker 0 is in fit, worker 1 in load('x'), ...", of the first few.
inline std::string calls_of_workers(std::string_view padded, std::size_t width,
                                    std::span<const std::uint64_t> lengths,
                                    std::size_t local_size) {
  constexpr std::size_t most = 16;
  const std::size_t workers = lengths.size() / local_size;
  std::string text;
  for (std::size_t worker = 0; worker < std::min(workers, most); ++worker) {
    const std::size_t rank = worker * local_size;
    std::string_view theirs = padded.substr(rank * width, lengths[rank]);
    const std::string_view call = take_line(theirs);
    const std::string_view arguments = take_line(theirs);
    text += concat({worker == 0 ? "" : ", ", "worker ", worker, worker == 0 ? " is in " : " in ",
                    printable(call, 50)});
    if (!arguments.empty()) text += concat({"(", printable(arguments, 300), ")"});
  }
  return workers > most ? text + ", ..." : text;
}

inline std::string quoted(std::string_view line) {
  return line.empty() ? std::string("nothing there") : concat({"'", line, "'"});
}

LOCKSTEP_INLINE void compare_descriptions(std::string_view padded, std::size_t width,
                                          std::span<const std::uint64_t> lengths,
                                          std::size_t local_size) {
  std::string_view chiefs = padded.substr(0, lengths[0]);
  const std::string_view call = take_line(chiefs);
  take_line(chiefs);
  const auto description = [&](std::size_t rank) {
    std::string_view theirs = padded.substr(rank * width, lengths[rank]);
    if (take_line(theirs) != call)
      throw ConfigurationError(
          concat({call, ": the workers are not in the same call: ",
                  calls_of_workers(padded, width, lengths, local_size),
                  ": every worker must make the same calls in the same order"}));
    take_line(theirs);
    return theirs;
  };
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) (void)description(rank);
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
    if (const auto lines = first_difference(description(rank), chiefs))
      throw ConfigurationError(
          concat({call, ": the workers differ: worker ", rank / local_size, " has ",
                  quoted(lines->first), ", the chief has ", quoted(lines->second),
                  ": start the same program with the same options and data on every worker"}));
  }
}

LOCKSTEP_INLINE std::vector<std::string> exchange_texts(AnyStrategy& strategy,
                                                        const std::string& mine) {
  if (strategy.has_parameter_servers())
    throw ConfigurationError(
        "a sharded state is written and read by workers that train together, and with parameter "
        "servers they do not: leave .sharded out, and name a folder without a sharded backup");
  std::vector<std::string> all;
  strategy.run([&](AnyReplica& replica) {
    auto& collective = replica.collective();
    const bool leader = replica.local_rank() == 0;
    const auto ranks = static_cast<std::size_t>(collective.size());
    std::uint64_t size = leader ? mine.size() : 0;
    std::vector<std::uint64_t> sizes(ranks);
    collective.all_gather(bytes_of(size), std::as_writable_bytes(std::span(sizes)));
    const auto longest = static_cast<std::size_t>(*std::ranges::max_element(sizes));
    std::string padded(leader ? mine : std::string()), texts(longest * ranks, '\0');
    padded.resize(longest);
    if (longest > 0)
      collective.all_gather(std::as_bytes(std::span(padded)),
                            std::as_writable_bytes(std::span(texts)));
    if (!leader) return;
    const auto step = static_cast<std::size_t>(replica.local_size());
    for (std::size_t rank = 0; rank < ranks; rank += step)
      all.push_back(texts.substr(rank * longest, static_cast<std::size_t>(sizes[rank])));
  });
  return all;
}

}}}  // namespace lockstep::detail
