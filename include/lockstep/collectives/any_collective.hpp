// AnyCollective: what strategies, the training step and the loop call, compiled once.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The operations of all ranks, as strategies, the training step and the loop call them. The
/// library's collectives derive from it; any_collective() makes one of any Collective. can() says
/// which of the operations at its end there are.
class AnyCollective {
 public:
  /// Which optional operations there are.
  struct Abilities {
    bool scatter = false;         ///< reduce_scatter
    bool scatter_early = false;   ///< begin_reduce_scatter, advance_reduce_scatter
    bool overlap = false;         ///< all_reduce_async, wait
    bool share = false;           ///< reduce_scatter_all_gather; the same on all ranks
    bool keep_residuals = false;  ///< keep_residuals; the same on all ranks
    bool shard = false;           ///< reduce_scatter_blocks, all_gather_blocks
    bool shard_early = false;     ///< reduce_scatter_blocks_async
  };

  AnyCollective& operator=(const AnyCollective&) = delete;
  virtual ~AnyCollective() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const Abilities& can() const noexcept { return can_; }
  /// What the options say of overlap; off where it cannot.
  [[nodiscard]] Overlap overlap() const noexcept { return overlap_; }

  virtual void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) = 0;
  virtual void all_reduce(std::span<double> status, NumberSpan values) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void barrier() = 0;
  /// The barrier of this process's threads alone.
  virtual void team_barrier() { barrier(); }
  virtual void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept = 0;
  /// See ClosingCollective.
  virtual void close() {}
  /// A Buffer for the gradients that the collective can use without a copy.
  [[nodiscard]] virtual Buffer allocate(std::size_t bytes) { return Buffer(bytes); }
  /// The rank's board (see ReportingCollective), if there is one, else null.
  [[nodiscard]] virtual ActivityBoard* board() { return nullptr; }

  // For those that can. By default, each throws Error.

  /// Where the ranks share memory, and hence may share the parameters. Sums as all_reduce(status,
  /// values) does, but leaves `values` as they are and hands each rank a share of the sums: it
  /// calls f for pieces that together cover the share. Returns when all ranks have come back from
  /// their calls of f, with the sums in `status`. If f throws, so does this, after that.
  virtual void reduce_scatter(std::span<double>, NumberSpan, TakeSums) { cannot("reduce_scatter"); }
  /// A reduce_scatter that begins while a rank still computes its values. All ranks call it with
  /// equal lengths; then each says that its first `count` values are there, as often as it likes.
  /// That does not wait: it calls f for what all ranks have so far, with the sums of that first
  /// status, and throws what f throws. reduce_scatter then calls f for the rest, and ends it.
  /// Values that are ready must not change until all ranks are through, or have failed.
  virtual void begin_reduce_scatter(std::span<const double>, ConstNumberSpan) {
    cannot("begin_reduce_scatter");
  }
  virtual void advance_reduce_scatter(std::size_t, TakeSums) { cannot("advance_reduce_scatter"); }
  /// Begins to sum `values` as all_reduce({}, values) does, and returns; they are not to be touched
  /// until wait() has returned, which throws what has failed. Operations are carried out in the
  /// order of the calls, whether they block or not.
  virtual void all_reduce_async(NumberSpan) { cannot("all_reduce_async"); }
  virtual void wait() { cannot("wait"); }
  /// Where ranks that have different parameters reach each other's `values`. Sums as
  /// all_reduce(status, values) does, but gives all ranks what f makes of the sums: it calls f for
  /// pieces of a share (of all values where these are few), and f writes as many results. f must
  /// make the same of a piece on any rank. If f throws, so does this, and the other ranks wait
  /// until abort tells them.
  virtual void reduce_scatter_all_gather(std::span<double>, NumberSpan, UseSums) {
    cannot("reduce_scatter_all_gather");
  }
  /// With CommunicationOptions::error_feedback: from now on all_reduce(status, part) for any part
  /// of `values` adds to each what the residual in its place holds, and leaves there what this rank
  /// rounds off. So does all_reduce_async(part). Until it is called again for these values, with no
  /// residuals.
  virtual void keep_residuals(std::span<const float>, std::span<float>) {
    cannot("keep_residuals");
  }
  /// The two halves of an all_reduce. Between them, each rank may process its part of the sums for
  /// all ranks, as in an update of parameters. Partition cuts an array into blocks over the ranks;
  /// a rank owns the blocks whose last_rank it is. The first half sums as all_reduce({}, values)
  /// does, but leaves each rank only the sums of the blocks it owns; the other blocks are then
  /// undefined. With the second, all ranks get every rank's blocks. Each moves half of what
  /// all_reduce does. A two-level collective has the blocks of processes: the threads of a process
  /// all get the sums of its blocks; of what is gathered, the first thread's array counts, which
  /// they share, and the others' may be empty.
  virtual void reduce_scatter_blocks(NumberSpan) { cannot("reduce_scatter_blocks"); }
  virtual void all_gather_blocks(NumberSpan) { cannot("all_gather_blocks"); }
  /// Begins such a sum, as all_reduce_async does.
  virtual void reduce_scatter_blocks_async(NumberSpan) { cannot("reduce_scatter_blocks_async"); }

 protected:
  AnyCollective(int rank, int size, const Abilities& can, Overlap overlap = Overlap::off) noexcept
      : rank_(rank), size_(size), can_(can), overlap_(overlap) {}
  AnyCollective(AnyCollective&&) noexcept = default;

 private:
  [[noreturn]] static void cannot(const char* operation) {
    throw Error(concat({operation, ": this collective does not have it (AnyCollective::can)"}));
  }

  int rank_;
  int size_;
  Abilities can_;
  Overlap overlap_;
};

namespace detail {

/// A Collective of a user's, or a reference to one, as an AnyCollective.
template <class Held, Collective C = std::remove_reference_t<Held>>
class CollectiveAdapter final : public AnyCollective {
 public:
  explicit CollectiveAdapter(Held&& collective)
      : AnyCollective(collective.rank(), collective.size(), {}),
        collective_(std::forward<Held>(collective)) {}

  void all_reduce(NumberSpan values, ReduceOp op) override {
    visit_type(values.type(), [&]<class T>(T*) { collective_.all_reduce(values.as<T>(), op); });
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    if (values.type() == DataType::float32)
      collective_.all_reduce(status, values.as<float>());
    else
      collective_.all_reduce(status, values.as<double>());
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    collective_.broadcast(bytes, root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    collective_.all_gather(mine, all);
  }
  void barrier() override { collective_.barrier(); }
  void abort(std::string_view reason, ExitCode code) noexcept override {
    detail::abort(collective_, reason, code);
  }
  void close() override {
    if constexpr (ClosingCollective<C>) collective_.close();
  }
  [[nodiscard]] Buffer allocate(std::size_t bytes) override {
    if constexpr (requires { collective_.allocate(bytes); }) return collective_.allocate(bytes);
    return Buffer(bytes);
  }
  [[nodiscard]] ActivityBoard* board() override {
    if constexpr (ReportingCollective<C>) return &collective_.activity();
    return nullptr;
  }

 private:
  Held collective_;
};

}  // namespace detail

/// Takes the collective over, or, where it is an lvalue, refers to it.
template <class C>
  requires std::derived_from<std::remove_reference_t<C>, AnyCollective> ||
           Collective<std::remove_reference_t<C>>
[[nodiscard]] std::shared_ptr<AnyCollective> any_collective(C&& collective) {
  if constexpr (!std::derived_from<std::remove_reference_t<C>, AnyCollective>)
    return std::make_shared<detail::CollectiveAdapter<C>>(std::forward<C>(collective));
  else if constexpr (std::is_lvalue_reference_v<C>)
    return {std::shared_ptr<void>(), &collective};
  else
    return std::make_shared<C>(std::forward<C>(collective));
}
[[nodiscard]] inline std::shared_ptr<AnyCollective> any_collective(
    std::shared_ptr<AnyCollective> collective) {
  return collective;
}

}}  // namespace lockstep
