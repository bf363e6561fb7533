// The world of an elastic cluster, as training and messages know it.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/collectives/elastic/elastic_options.hpp"
#include "lockstep/collectives/elastic/membership.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/elastic_world.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

class MembersWorld final : public ElasticWorld {
 public:
  explicit MembersWorld(const Membership& membership) : membership_(membership) {}
  [[nodiscard]] bool has_newcomer() const noexcept override { return membership_.has_newcomer(); }
  [[nodiscard]] bool is_successor() const noexcept override {
    return membership_.world().epoch > 1;
  }
  [[nodiscard]] std::string description() const override { return membership_.description(); }
  [[nodiscard]] int workers_of_batch() const noexcept override {
    return membership_.options().global_batch == GlobalBatch::follows_world ? membership_.slots()
                                                                            : 0;
  }
  [[nodiscard]] EncodeState encode_state() const noexcept override { return &encode_checkpoint; }
  [[nodiscard]] DecodeState decode_state() const noexcept override { return &decode_checkpoint; }

 private:
  const Membership& membership_;
};

/// The failure, and which worker of the cluster has failed where its rank in the world is another
/// number. `replicas`: ranks of each worker.
inline CollectiveFailure naming_worker(CollectiveFailure failure, const World& world,
                                       int replicas) {
  const bool is_process = failure.failed_rank >= 0 && !failure.address.empty();
  const auto member = static_cast<std::size_t>(is_process ? failure.failed_rank / replicas : 0);
  if (is_process && member < world.slots.size() && !world.ranks_are_slots())
    failure.reason += concat({"; rank ", failure.failed_rank, " of world ", world.epoch,
                              " is worker ", world.slots[member]});
  return failure;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
