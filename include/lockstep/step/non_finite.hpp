// A loss that is infinite or NaN: where it comes from.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/parts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The first row with a non-finite value.
template <class T>
[[nodiscard, gnu::cold]] std::optional<std::size_t> non_finite_row(const TensorView<T>& view) {
  for (std::size_t row = 0; row < view.samples(); ++row)
    for (std::size_t f = 0; f < view.features(); ++f)
      if (!std::isfinite(static_cast<double>(view(row, f)))) return row;
  return std::nullopt;
}

/// Where the first non-finite value is. Call this after a forward pass whose loss is not finite,
/// before anything changes.
template <class T>
[[nodiscard, gnu::cold]] std::string find_non_finite(const Parts<T>& parts,
                                                     const StepContext& context) {
  const auto sample = [&](std::size_t row) {
    return concat({"sample ", context.sample_indices[row], " of the data"});
  };
  const auto parameters = parts.variables.parameters().slices();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!std::all_of(parameters[i].begin(), parameters[i].end(),
                     [](T value) { return std::isfinite(value); }))
      return concat({"the parameter ", parts.program.names().variables[i]});
  if (const auto row = non_finite_row(parts.workspace.x()))
    return concat({"the input, ", sample(*row)});
  std::optional<std::size_t> layer;
  parts.workspace.each_output([&](std::size_t position, const TensorView<const T>& y) {
    if (!layer && non_finite_row(y)) layer = position;
  });
  if (layer) return concat({"the output of ", parts.program.names().layers[*layer]});
  if (const auto row = non_finite_row(parts.workspace.targets()))
    return concat({"the targets, ", sample(*row / parts.program.layout().positions)});
  if (const auto row = non_finite_row(parts.workspace.batch_weights()))
    return concat({"the sample weights, ", sample(*row)});
  return "the loss itself";
}

/// All ranks tell each other what they have found: "worker 1 (first in the output of dense_1),
/// worker 3 (...)".
[[nodiscard, gnu::cold]] inline std::string share_non_finite(AnyReplica& replica,
                                                             const std::string& source) {
  using Text = std::array<char, 120>;
  AnyCollective& collective = replica.collective();
  Text mine{};
  std::copy_n(source.begin(), std::min(source.size(), mine.size() - 1), mine.begin());
  std::vector<Text> all(static_cast<std::size_t>(collective.size()));
  collective.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::string text;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == 0) continue;
    all[rank].back() = 0;
    text += concat({text.empty() ? "" : ", ", replica_name(rank, replica.local_size()),
                    " (first in ", all[rank].data(), ")"});
  }
  return text;
}

/// At the first step whose loss is not finite on some rank, all ranks tell each other where, and
/// the chief reports it. With `stop` all throw, but none before all others have left the exchange.
template <class T>
[[gnu::cold]] void report_non_finite(const Parts<T>& parts, bool stop, int epoch,
                                     std::int64_t step) {
  AnyReplica& replica = parts.replica;
  parts.workspace.non_finite.is_reported = true;
  const std::string where = share_non_finite(replica, parts.workspace.non_finite.source);
  const std::string what =
      concat({"fit: the loss is not finite in step ", step + 1, " of epoch ", epoch + 1, ", on ",
              static_cast<std::int64_t>(parts.workspace.status()[StatusBlock::non_finite]), " of ",
              replica.collective().size(), " replicas: ", where, "; "});
  if (stop) {
    replica.collective().barrier();
    throw Error(
        what +
        "the parameters are those before it: use a lower learning rate, or look at the data");
  }
  if (replica.collective().rank() == 0)
    log_warning(what +
                "use a lower learning rate, or look at the data; without a TerminateOnNaN or "
                ".stop_on_non_finite training "
                "goes on");
}

}}}  // namespace lockstep::detail
