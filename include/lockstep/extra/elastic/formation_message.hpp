// What processes say to each other when they form a world, apart from any socket.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/meeting/conversation.hpp"
#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A process calls all others, and says which slot it has (claim), again and again. What the others
/// answer: that they are forming a world, or at work. The one of the lowest slot proposes:
///
///     guest                              host (a lower slot)
///     claim(memory, version)         ->
///                                    <-  forming, or at_work(world)
///                                    <-  propose(world, addresses, version of the claim)
///     accept(world), or refuse       ->
///                                    <-  commit(world) when all have accepted, or withdraw
///
/// As text: fields, each with a new line behind it.
struct FormationMessage {
  enum class Kind { claim, forming, at_work, propose, accept, refuse, commit, withdraw };

  Kind kind = Kind::forming;
  int slot = 0;               ///< claim: of the sender
  int slots = 0;              ///< claim: of the cluster
  int min_workers = 0;        ///< claim
  std::uint64_t version = 0;  ///< claim; propose: of the claim to which it answers
  std::string address{};      ///< claim: where the sender listens to the others of a world
  std::string build{};        ///< claim: what all must have in common, on one line
  WorldMemory memory{};       ///< claim
  World world{};              ///< of all others but forming
  std::vector<std::string> addresses{};  ///< propose: by rank

  [[nodiscard]] std::string text() const {
    std::string text = concat({names[static_cast<std::size_t>(kind)], "\n"});
    switch (kind) {
      case Kind::claim:
        text +=
            concat({slot, "\n", slots, "\n", min_workers, "\n", version, "\n", address, "\n", build,
                    "\n", memory.worked ? memory.worked->text() : std::string("none"), "\n"});
        for (const World& each : memory.agreed) text += each.text() + "\n";
        break;
      case Kind::forming:
        break;
      case Kind::propose:
        text += concat({version, "\n", world.text(), "\n"});
        for (const std::string& each : addresses) text += each + "\n";
        break;
      default:
        text += world.text() + "\n";
    }
    return text;
  }

  /// Nothing when it is none.
  [[nodiscard]] static std::optional<FormationMessage> read(std::string_view message) {
    const auto fields = fields_of(message);
    if (fields.empty()) return std::nullopt;
    FormationMessage read;
    std::size_t named = 0;
    while (named < std::size(names) && fields[0] != names[named]) ++named;
    if (named == std::size(names)) return std::nullopt;
    read.kind = static_cast<Kind>(named);
    const auto number = [&](std::size_t field, auto& value) {
      if (field >= fields.size()) return false;
      const std::string& digits = fields[field];
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-';
    };
    const auto take = [&](std::size_t field) {
      const auto found = field < fields.size() ? World::read(fields[field]) : std::nullopt;
      if (found) read.world = *found;
      return found && (read.kind != Kind::claim || found->slots.back() < read.slots);
    };
    switch (read.kind) {
      case Kind::claim:
        if (fields.size() < 8 || !number(1, read.slot) || !number(2, read.slots) ||
            !number(3, read.min_workers) || !number(4, read.version) || !is_address(fields[5]))
          return std::nullopt;
        read.address = fields[5];
        read.build = fields[6];
        for (std::size_t field = 7; field < fields.size(); ++field) {
          if (field == 7 && fields[field] == "none") continue;
          if (!take(field)) return std::nullopt;
          if (field == 7)
            read.memory.worked = std::exchange(read.world, {});
          else
            read.memory.agreed.push_back(std::exchange(read.world, {}));
        }
        break;
      case Kind::forming:
        break;
      case Kind::propose:
        if (!number(1, read.version) || !take(2) || fields.size() != 3 + read.world.slots.size() ||
            !std::all_of(fields.begin() + 3, fields.end(), is_address))
          return std::nullopt;
        read.addresses.assign(fields.begin() + 3, fields.end());
        break;
      default:
        if (!take(1)) return std::nullopt;
    }
    return read;
  }

 private:
  [[nodiscard]] static bool is_address(const std::string& text) {
    try {
      return parse_address(text).port > 0;
    } catch (const ConfigurationError&) {
      return false;
    }
  }
  static constexpr std::string_view names[] = {"claim",  "forming", "at work", "propose",
                                               "accept", "refuse",  "commit",  "withdraw"};
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
