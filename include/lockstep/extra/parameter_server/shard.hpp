// Shards: the ranges of elements into which parameter servers cut a model's variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/step/workspace.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A range of the arena.
struct ShardRange {
  std::size_t begin = 0;
  std::size_t size = 0;
};

/// The range of server `index` of `count`: nearly equal parts, cut between variables for an
/// optimizer that updates whole variables.
template <class T>
[[nodiscard]] ShardRange shard_range(const Variables<T>& variables, std::size_t index,
                                     std::size_t count) {
  const auto [begin, size] = variables.part(index, count);
  return {begin, size};
}

/// The bytes of a shard with its slots, the counters, and all variables that are not trained: what
/// servers and workers give each other when a fit begins, and for files. (f on each part.)
template <class V, class W, class F>
void each_part_of_shard(V& variables, W& workspace, const ShardRange& range, F&& f) {
  f(variables.parameters().values().subspan(range.begin, range.size));
  for (auto& slot : variables.slots()) f(slot.values().subspan(range.begin, range.size));
  f(workspace.state().values());
}

/// The counters of Variables, as they stand before the parts of a shard.
template <class T>
struct ShardCounters {
  explicit ShardCounters(const Variables<T>& variables)
      : iterations(variables.iterations),
        learning_rate(variables.learning_rate()),
        previous_learning_rate(variables.previous_learning_rate),
        seed(variables.seed),
        next_pass(variables.next_pass) {}

  void give(Variables<T>& variables) const {
    variables.iterations = iterations;
    variables.set_learning_rate(learning_rate);
    variables.previous_learning_rate = previous_learning_rate;
    variables.seed = seed;
    variables.next_pass = next_pass;
    ++variables.revision;
  }

  std::int64_t iterations;
  double learning_rate;
  double previous_learning_rate;
  std::uint64_t seed;
  std::int64_t next_pass;
};

template <class T>
[[nodiscard]] std::size_t shard_bytes(const Variables<T>& variables, const Workspace<T>& workspace,
                                      const ShardRange& range) {
  std::size_t bytes = sizeof(ShardCounters<T>);
  each_part_of_shard(variables, workspace, range,
                     [&](std::span<const T> part) { bytes += part.size_bytes(); });
  return bytes;
}

template <class T>
void save_shard(const Variables<T>& variables, const Workspace<T>& workspace,
                const ShardRange& range, std::span<std::byte> to) {
  const ShardCounters<T> counters(variables);
  std::memcpy(to.data(), &counters, sizeof counters);
  std::byte* next = to.data() + sizeof counters;
  each_part_of_shard(variables, workspace, range, [&](std::span<const T> part) {
    if (!part.empty()) std::memcpy(next, part.data(), part.size_bytes());
    next += part.size_bytes();
  });
}

template <class T>
void load_shard(Variables<T>& variables, Workspace<T>& workspace, const ShardRange& range,
                std::span<const std::byte> from) {
  ShardCounters<T> counters(variables);
  std::memcpy(&counters, from.data(), sizeof counters);
  counters.give(variables);
  const std::byte* next = from.data() + sizeof counters;
  each_part_of_shard(variables, workspace, range, [&](std::span<T> part) {
    if (!part.empty()) std::memcpy(part.data(), next, part.size_bytes());
    next += part.size_bytes();
  });
}

/// Calls f(element, number) for the elements of untrained variables and the numbers that stand for
/// them behind a packed status (see Workspace::pack_status).
template <class T, class F>
void each_untrained(const Program<T>& program, const Arena<T>& state, std::span<double> packed,
                    F&& f) {
  std::size_t elements = 0;
  const auto& variables = program.layout().state_variables;
  for (const Variable& variable : variables)
    if (!variable.is_constant) elements += variable.size();
  double* next = packed.data() + (packed.size() - elements);
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!variables[i].is_constant)
      for (T& element : state.slices()[i]) f(element, *next++);
}

}}}  // namespace lockstep::detail
