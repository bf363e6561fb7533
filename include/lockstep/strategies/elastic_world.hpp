// What training needs to know of a strategy whose workers may change.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct TrainingState;

/// The workers that are at work together: see ElasticOptions.
class ElasticWorld {
 public:
  ElasticWorld() = default;
  ElasticWorld(const ElasticWorld&) = delete;
  ElasticWorld& operator=(const ElasticWorld&) = delete;
  virtual ~ElasticWorld() = default;

  /// Whether a worker waits to be taken in. From any thread.
  [[nodiscard]] virtual bool has_newcomer() const noexcept = 0;
  /// Whether it follows another one, in which another worker may have been the chief.
  [[nodiscard]] virtual bool is_successor() const noexcept = 0;
  /// "world 3: workers 0 2 3 (3 of 4)".
  [[nodiscard]] virtual std::string description() const = 0;

  /// For how many workers a dataset's global batch is, where it follows the world
  /// (GlobalBatch::follows_world); 0 where it stays.
  [[nodiscard]] virtual int workers_of_batch() const noexcept { return 0; }

  /// How survivors give their state to the others.
  using EncodeState = std::vector<std::byte> (*)(const TrainingState& state);
  using DecodeState = TrainingState (*)(std::span<const std::byte> bytes);
  [[nodiscard]] virtual EncodeState encode_state() const noexcept = 0;
  [[nodiscard]] virtual DecodeState decode_state() const noexcept = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
