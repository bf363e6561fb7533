// What training and a strategy need to know about workers that may change.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct TrainingState;

/// The workers that train together: see ElasticOptions.
class ElasticWorld {
 public:
  ElasticWorld() = default;
  ElasticWorld(const ElasticWorld&) = delete;
  ElasticWorld& operator=(const ElasticWorld&) = delete;
  virtual ~ElasticWorld() = default;

  /// Whether a worker waits to be taken in. From any thread.
  [[nodiscard]] virtual bool has_newcomer() const noexcept = 0;
  /// Whether there was a world before it, in which another worker may have been the chief.
  [[nodiscard]] virtual bool is_successor() const noexcept = 0;
  /// "world 3: workers 0 2 3 (3 of 4)".
  [[nodiscard]] virtual std::string description() const = 0;

  /// The number of workers that a dataset's global batch is meant for, where it follows the world
  /// (GlobalBatch::follows_world); 0 where it stays.
  [[nodiscard]] virtual int workers_of_batch() const noexcept { return 0; }

  /// How survivors give their state to the others.
  using EncodeState = std::vector<std::byte> (*)(const TrainingState& state);
  using DecodeState = TrainingState (*)(std::span<const std::byte> bytes);
  [[nodiscard]] virtual EncodeState encode_state() const noexcept = 0;
  [[nodiscard]] virtual DecodeState decode_state() const noexcept = 0;
};

struct Cluster;
struct CommunicationOptions;
struct World;
class KeptPort;

namespace detail {

/// A process's membership in worlds, as the strategy sees it: see join_worlds.
class Worlds : public ElasticWorld {
 public:
  virtual void form(const std::shared_ptr<KeptPort>& port) = 0;
  virtual void works() = 0;
  [[nodiscard]] virtual const World& world() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<std::string>& addresses() const noexcept = 0;
  [[nodiscard]] virtual int slot() const noexcept = 0;
  /// ElasticOptions::wait.
  [[nodiscard]] virtual std::chrono::milliseconds wait() const noexcept = 0;
};

/// What ElasticOptions bring along, so that programs that name none do not compile it.
class ElasticCode {
 public:
  virtual ~ElasticCode() = default;
  /// Throws ConfigurationError where the cluster cannot be elastic.
  virtual void check(const Cluster& cluster) const = 0;
  /// `build`, a line, is what all processes must have in common.
  [[nodiscard]] virtual std::unique_ptr<Worlds> join(const Cluster& cluster,
                                                     const CommunicationOptions& options,
                                                     const std::string& build) const = 0;
};

}  // namespace detail

}}  // namespace lockstep
