// What workers write and read of a sharded state; sharded_state.hpp has its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Elements of one of a state's arrays, which are counted through parameters, state and slots.
struct ArraySlice {
  std::uint64_t array = 0;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// What a worker writes of a state.
struct StateShare {
  TrainingState state{};             ///< an array for each slice; all else on the chief alone
  std::vector<ArraySlice> slices{};  ///< of state's arrays
  /// The arrays of the whole state, without elements: parameters, state and slots.
  std::vector<SavedArray> parameters{}, untrained{}, slots{};
};

/// The part of a state's slots that a worker needs, where it does not need all.
struct SlotRanges {
  std::size_t arrays = 0;                     ///< how many, from the first one on
  std::vector<std::vector<ArraySlice>> of{};  ///< of array i, of[i % of.size()]; they ascend
  std::uint64_t bytes = 0;                    ///< of all arrays of the model; see size_limit
};

/// For who reads variables alone. `bytes`: as above; 0: not known.
[[nodiscard]] inline SlotRanges no_slots(std::uint64_t bytes = 0) {
  return {.arrays = std::numeric_limits<std::size_t>::max(), .of = {{}}, .bytes = bytes};
}

/// Sends each worker's text to all; returns the texts of all, by worker. All must call it alike.
using Exchange = FunctionRef<std::vector<std::string>(std::string)>;

/// How the chief tells other workers, in place of a file's bytes, to read a sharded state.
inline constexpr std::string_view shares_reference = "lockstep sharded state: ";

[[nodiscard]] inline std::vector<std::byte> reference_to_shares(const std::string& path) {
  const std::string text = std::string(shares_reference) + path;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
/// The path in such bytes; nothing in others.
[[nodiscard]] inline std::optional<std::string> path_of_shares(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(shares_reference)) return std::nullopt;
  return std::string(text.substr(shares_reference.size()));
}

}}}  // namespace lockstep::detail
