// Checks that all ranks run the same program before they train together.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

/// The first lines in which two texts differ; nothing when they are equal.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> first_difference(
    std::string_view a, std::string_view b);

/// Throws ConfigurationError when one of the descriptions, each padded to `width` bytes, differs
/// from the first. Their first two lines are the call and its arguments. `local_size`: the ranks of
/// a worker.
void compare_descriptions(std::string_view padded, std::size_t width,
                          std::span<const std::uint64_t> lengths, std::size_t local_size);

/// The first exchange of every call in which all ranks take part: `call` ("load", say) must be the
/// same on all of them, and so must be `description`, lines of "what: value". Throws the same
/// ConfigurationError on every rank when one differs, naming the worker, and either the calls, with
/// their `arguments` ("'model.lockstep'"), or the first line that differs from the chief's.
///
/// `number`, from 1, counts the calls of this kind: a worker that was started again may be in an
/// earlier one than the others. If all ranks give a number and these differ, nothing else is
/// compared. Returns the smallest and the largest.
template <Collective C>
std::pair<std::uint64_t, std::uint64_t> agree(C& collective, std::string_view call,
                                              std::string_view description,
                                              std::string_view arguments = {}, int local_size = 1,
                                              std::uint64_t number = 0) {
  if (collective.size() == 1) return {number, number};
  const auto ranks = static_cast<std::size_t>(collective.size());
  const std::string mine = concat({call, "\n", printable(arguments, 300), "\n", description});
  std::array<std::uint64_t, 2> sent{number, mine.size()};
  std::vector<std::array<std::uint64_t, 2>> all_sent(ranks);
  collective.all_gather(bytes_of(sent), std::as_writable_bytes(std::span(all_sent)));
  const auto [first, last] = std::minmax_element(all_sent.begin(), all_sent.end());
  const std::pair numbers(first->front(), last->front());
  if (numbers.first > 0 && numbers.first != numbers.second) return numbers;
  std::vector<std::uint64_t> lengths;
  lengths.reserve(ranks);
  for (const auto& each : all_sent) lengths.push_back(each.back());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  constexpr std::size_t limit = std::size_t{1} << 24;
  if (longest > limit)
    throw ConfigurationError(
        concat({call, ": a rank sent a description of ", longest, " bytes, at most ", limit,
                " are expected: do all run the same program?"}));
  std::string padded(mine);
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  collective.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  compare_descriptions(all, longest, lengths, static_cast<std::size_t>(local_size));
  return numbers;
}

inline std::pair<std::uint64_t, std::uint64_t> agree(AnyReplica& replica, std::string_view call,
                                                     std::string_view description,
                                                     std::string_view arguments = {},
                                                     std::uint64_t number = 0) {
  return agree(replica.collective(), call, description, arguments, replica.local_size(), number);
}

/// A call of all ranks, which compares what they were given, as agree does. Until the end of the
/// scope the other workers see that this one is in it. `call` lives as long as the program.
class CommonCall {
 public:
  CommonCall(AnyReplica& replica, const char* call, std::string_view description,
             std::string_view arguments = {})
      : activity_(replica.board(), {.call = call}) {
    agree(replica, call, description, arguments);
  }

 private:
  ActivityScope activity_;
};

/// Sends a value of the chief's to all ranks.
template <Collective C, class T>
T from_chief(C& collective, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  collective.broadcast(bytes_of(value), 0);
  return value;
}

/// Sends the root's bytes to all ranks, whatever their number.
template <Collective C>
std::vector<std::byte> bytes_from(C& collective, int root, std::vector<std::byte> bytes) {
  std::uint64_t size = bytes.size();
  collective.broadcast(bytes_of(size), root);
  bytes.resize(size);
  if (!bytes.empty()) collective.broadcast(bytes, root);
  return bytes;
}

/// Sends a text of each worker to all, by worker. All call it alike. Throws ConfigurationError with
/// parameter servers, whose workers cannot exchange anything.
[[nodiscard]] std::vector<std::string> exchange_texts(AnyStrategy& strategy,
                                                      const std::string& mine);

/// Sends the chief's bytes to all ranks, whatever their number.
template <Collective C>
std::vector<std::byte> bytes_from_chief(C& collective, std::vector<std::byte> bytes) {
  return bytes_from(collective, 0, std::move(bytes));
}

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/agreement.ipp"
#endif
