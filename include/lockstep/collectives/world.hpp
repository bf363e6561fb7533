// The workers that are at work together, and which of them may decide on the world that follows.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A worker's **slot** is its place in the configured cluster; in a world, ranks go by slots.
struct World {
  std::int64_t epoch = 0;    ///< its number; each that follows has a higher one
  std::uint64_t id = 0;      ///< tells two proposals with one number apart
  std::vector<int> slots{};  ///< of its members, ascending

  [[nodiscard]] bool has(int slot) const {
    return std::binary_search(slots.begin(), slots.end(), slot);
  }
  /// The place of a member among them.
  [[nodiscard]] int rank_of(int slot) const {
    return static_cast<int>(std::lower_bound(slots.begin(), slots.end(), slot) - slots.begin());
  }
  /// Whether each member's rank is its slot: no slot below the highest one is vacant.
  [[nodiscard]] bool ranks_are_slots() const noexcept {
    return slots.empty() || static_cast<std::size_t>(slots.back()) + 1 == slots.size();
  }
  [[nodiscard]] bool is_same(const World& other) const noexcept {
    return epoch == other.epoch && id == other.id;
  }

  /// "0 2 3".
  [[nodiscard]] std::string members() const {
    std::string text;
    for (const int slot : slots) text += concat({text.empty() ? "" : " ", slot});
    return text;
  }

  /// For messages that name ranks: "ranks 0 1 2 are workers 0 2 3".
  [[nodiscard]] std::string ranks_text() const {
    std::string text = "ranks";
    for (std::size_t rank = 0; rank < slots.size(); ++rank) text += concat({" ", rank});
    return concat({text, " are workers ", members()});
  }

  static constexpr std::int64_t last_epoch = std::int64_t{1} << 62;  ///< no run comes that far
  /// One line, for messages: "3 4711 0 2 3".
  [[nodiscard]] std::string text() const { return concat({epoch, " ", id, " ", members()}); }
  [[nodiscard]] static std::optional<World> read(std::string_view line) {
    World world;
    const char* at = line.data();
    const char* const end = line.data() + line.size();
    const auto number = [&](auto& value) {
      const auto [rest, error] = std::from_chars(at, end, value);
      if (error != std::errc() || (rest != end && *rest != ' ')) return false;
      at = rest == end ? end : rest + 1;
      return true;
    };
    if (!number(world.epoch) || !number(world.id) || world.epoch < 1 || world.epoch > last_epoch)
      return std::nullopt;
    while (at != end) {
      int slot = 0;
      if (!number(slot) || slot < 0 || (!world.slots.empty() && slot <= world.slots.back()))
        return std::nullopt;
      world.slots.push_back(slot);
    }
    if (world.slots.empty()) return std::nullopt;
    return world;
  }
};

namespace detail {

/// What a process knows of worlds: the last one in which it was at work, and those that it has
/// agreed to since, of which it cannot tell whether they came to work. A process that has just been
/// started, and one that was left out, knows none: a newcomer.
struct WorldMemory {
  std::optional<World> worked{};
  std::vector<World> agreed{};

  [[nodiscard]] bool is_newcomer() const noexcept { return !worked && agreed.empty(); }
  [[nodiscard]] bool knows(const World& world) const {
    return (worked && worked->is_same(world)) ||
           std::ranges::any_of(agreed, [&](const World& each) { return each.is_same(world); });
  }
  /// Whether a slot was in its last world.
  [[nodiscard]] bool has(int slot) const {
    return worked ? worked->has(slot)
                  : std::ranges::any_of(agreed, [&](const World& each) { return each.has(slot); });
  }
  [[nodiscard]] std::int64_t last_epoch() const {
    std::int64_t last = worked ? worked->epoch : 0;
    for (const World& world : agreed) last = std::max(last, world.epoch);
    return last;
  }
};

/// A process that takes part in forming a world.
struct Participant {
  int slot = 0;
  WorldMemory memory{};
};

/// The candidates for the latest world, by what these participants remember. A world known to have
/// been at work ends all earlier ones.
[[nodiscard]] inline std::vector<World> last_worlds(std::span<const Participant> present) {
  std::int64_t epoch = 0;
  for (const Participant& each : present)
    if (each.memory.worked) epoch = std::max(epoch, each.memory.worked->epoch);
  std::vector<World> last;
  const auto add = [&](const World& world) {
    if (world.epoch >= epoch &&
        std::ranges::none_of(last, [&](const World& known) { return known.is_same(world); }))
      last.push_back(world);
  };
  for (const Participant& each : present) {
    if (each.memory.worked) add(*each.memory.worked);
    for (const World& world : each.memory.agreed) add(world);
  }
  return last;
}

/// Whether the processes that are present may decide what follows `world`: no others can, and if
/// others have, one of these knows it. More than half of its members must be there. At most half of
/// those may be there as a successor, which has the member's place and knows nothing. (That a place
/// has a successor means that the process before it has ended.)
[[nodiscard]] inline bool may_follow(const World& world, std::span<const Participant> present) {
  std::size_t know = 0, there = 0;
  for (const Participant& each : present) {
    if (!world.has(each.slot)) continue;
    ++there;
    know += each.memory.knows(world) ? 1 : 0;
  }
  return 2 * know >= world.slots.size() && 2 * there > world.slots.size();
}

}  // namespace detail

}}  // namespace lockstep
