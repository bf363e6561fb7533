// A process's membership in worlds: how they are formed, left and formed anew.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/extra/elastic/elastic_options.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A process's membership in the worlds of an elastic cluster. Listens at the process's address of
/// the cluster for as long as it lives, and has two threads of its own: one that talks with the
/// other processes, also while this one is at work, and one that calls them. The members of a world
/// connect on ports that are new for each.
class Membership {
 public:
  /// `addresses` are those of the cluster, `slot` this process's place among them; `build`, a line,
  /// is what all processes must have in common: one with another build is turned away. Throws
  /// ConfigurationError when an option makes no sense or the port cannot be listened on.
  Membership(int slot, const std::vector<std::string>& addresses, const ElasticOptions& elastic,
             const CommunicationOptions& options, const std::string& build = {});
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership();

  /// Leaves the world, if there is one, and waits until the next one is formed, with this process
  /// in it. Opens a port for its members, kept in `port`. Throws CollectiveError, exit code 138,
  /// when too few come.
  void form(const std::shared_ptr<KeptPort>& port);
  /// All members of world() are connected.
  void works();

  /// The last one that was formed, and its members' addresses by rank. Not while form() is under
  /// way.
  [[nodiscard]] const World& world() const noexcept { return world_; }
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  /// "world 3: workers 0 2 3 (3 of 4)".
  [[nodiscard]] std::string description() const;
  [[nodiscard]] int slot() const noexcept { return slot_; }
  /// Workers of the cluster.
  [[nodiscard]] int slots() const noexcept { return slots_; }
  [[nodiscard]] const ElasticOptions& options() const noexcept { return elastic_; }
  /// Whether one waits to be taken in. From any thread.
  [[nodiscard]] bool has_newcomer() const noexcept;

 private:
  class Impl;

  int slot_;
  int slots_;
  ElasticOptions elastic_;
  World world_;
  std::vector<std::string> addresses_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/extra/elastic/membership.ipp"
#endif
