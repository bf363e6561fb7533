#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/elastic/members.hpp"
#include "lockstep/extra/elastic/membership.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

class Members final : public Worlds {
 public:
  Members(const ElasticOptions& elastic, const Cluster& cluster,
          const CommunicationOptions& options, const std::string& build)
      : membership_(cluster.rank(), cluster.addresses(), elastic, options, build) {}

  void form(const std::shared_ptr<KeptPort>& port) override { membership_.form(port); }
  void works() override { membership_.works(); }
  [[nodiscard]] const World& world() const noexcept override { return membership_.world(); }
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept override {
    return membership_.addresses();
  }
  [[nodiscard]] int slot() const noexcept override { return membership_.slot(); }
  [[nodiscard]] std::chrono::milliseconds wait() const noexcept override {
    return membership_.options().wait;
  }

  [[nodiscard]] bool has_newcomer() const noexcept override { return membership_.has_newcomer(); }
  [[nodiscard]] bool is_successor() const noexcept override { return world().epoch > 1; }
  [[nodiscard]] std::string description() const override { return membership_.description(); }
  [[nodiscard]] int workers_of_batch() const noexcept override {
    return membership_.options().global_batch == GlobalBatch::follows_world ? membership_.slots()
                                                                            : 0;
  }
  [[nodiscard]] EncodeState encode_state() const noexcept override { return &encode_checkpoint; }
  [[nodiscard]] DecodeState decode_state() const noexcept override { return &decode_checkpoint; }

 private:
  Membership membership_;
};

class MembershipCode final : public ElasticCode {
 public:
  explicit MembershipCode(const ElasticOptions& options) : options_(options) {}

  void check(const Cluster& cluster) const override {
    if (cluster.meeting)
      throw ConfigurationError(
          concat({"MultiWorkerMirroredOptions::elastic needs the addresses of all workers, and ",
                  cluster.source, " names that of rank 0 alone: give them in TF_CONFIG"}));
    options_.validate(cluster.world_size());
  }
  [[nodiscard]] std::unique_ptr<Worlds> join(const Cluster& cluster,
                                             const CommunicationOptions& options,
                                             const std::string& build) const override {
    return std::make_unique<Members>(options_, cluster, options, build);
  }

 private:
  ElasticOptions options_;
};

}  // namespace detail

LOCKSTEP_INLINE Elastic::Elastic(const ElasticOptions& options)
    : code_(std::make_shared<const detail::MembershipCode>(options)) {}

}  // namespace lockstep::inline LOCKSTEP_ABI
