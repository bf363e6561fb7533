// AnyCollective: any collective behind one type, for code that is compiled once.
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

/// A Collective whose type is erased. Strategies, the training step and the loop use it, and are
/// compiled once. can() says which optional operations it has. any_collective() makes one of what a
/// policy connects.
class AnyCollective {
 public:
  /// Which optional operations there are.
  struct Abilities {
    bool scatter = false;         ///< reduce_scatter
    bool scatter_early = false;   ///< begin_reduce_scatter, advance_reduce_scatter
    bool overlap = false;         ///< all_reduce_async, wait
    bool share = false;           ///< reduce_scatter_all_gather, and shares_memory() is true
    bool keep_residuals = false;  ///< keep_residuals, and keeps_residuals() is true
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
  [[nodiscard]] virtual Buffer allocate(std::size_t bytes) { return Buffer(bytes); }
  /// The rank's board, if there is one, else null.
  [[nodiscard]] virtual ActivityBoard* board() { return nullptr; }

  // For those that can.
  virtual void reduce_scatter(std::span<double>, NumberSpan, TakeSums) { cannot("reduce_scatter"); }
  virtual void begin_reduce_scatter(std::span<const double>, ConstNumberSpan) {
    cannot("begin_reduce_scatter");
  }
  virtual void advance_reduce_scatter(std::size_t, TakeSums) { cannot("advance_reduce_scatter"); }
  virtual void all_reduce_async(NumberSpan) { cannot("all_reduce_async"); }
  virtual void wait() { cannot("wait"); }
  virtual void reduce_scatter_all_gather(std::span<double>, NumberSpan, UseSums) {
    cannot("reduce_scatter_all_gather");
  }
  virtual void keep_residuals(std::span<const float>, std::span<float>) {
    cannot("keep_residuals");
  }
  virtual void reduce_scatter_blocks(NumberSpan) { cannot("reduce_scatter_blocks"); }
  virtual void reduce_scatter_blocks_async(NumberSpan) { cannot("reduce_scatter_blocks_async"); }
  virtual void all_gather_blocks(NumberSpan) { cannot("all_gather_blocks"); }

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

/// A Collective, or a reference to one, as an AnyCollective.
template <class Held, Collective C = std::remove_reference_t<Held>>
class CollectiveAdapter final : public AnyCollective {
 public:
  explicit CollectiveAdapter(Held&& collective)
      : AnyCollective(collective.rank(), collective.size(), abilities(collective),
                      overlap_of(collective)),
        collective_(std::forward<Held>(collective)) {}

  void all_reduce(NumberSpan values, ReduceOp op) override {
    if constexpr (requires { collective_.all_reduce(values, op); })
      collective_.all_reduce(values, op);
    else
      visit_type(values.type(), [&]<class T>(T*) { collective_.all_reduce(values.as<T>(), op); });
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    if constexpr (requires { collective_.all_reduce(status, values); })
      collective_.all_reduce(status, values);
    else
      typed(values, [&](auto span) { collective_.all_reduce(status, span); });
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
    if constexpr (AllocatingCollective<C>) return collective_.allocate(bytes);
    return Buffer(bytes);
  }
  [[nodiscard]] ActivityBoard* board() override {
    if constexpr (ReportingCollective<C>) return &collective_.activity();
    return nullptr;
  }

  void reduce_scatter(std::span<double> status, NumberSpan values, TakeSums f) override {
    if constexpr (ScatteringCollective<C>)
      return typed(values, [&](auto span) { collective_.reduce_scatter(status, span, f); });
    AnyCollective::reduce_scatter(status, values, f);
  }
  void begin_reduce_scatter(std::span<const double> status, ConstNumberSpan values) override {
    if constexpr (EarlyScatteringCollective<C>)
      return typed(values, [&](auto span) { collective_.begin_reduce_scatter(status, span); });
    AnyCollective::begin_reduce_scatter(status, values);
  }
  void advance_reduce_scatter(std::size_t ready, TakeSums f) override {
    if constexpr (EarlyScatteringCollective<C>)
      collective_.advance_reduce_scatter(ready, f);
    else
      AnyCollective::advance_reduce_scatter(ready, f);
  }
  void all_reduce_async(NumberSpan values) override {
    if constexpr (OverlappingCollective<C>)
      return typed(values, [&](auto span) { collective_.all_reduce_async(span); });
    AnyCollective::all_reduce_async(values);
  }
  void wait() override {
    if constexpr (OverlappingCollective<C>)
      collective_.wait();
    else
      AnyCollective::wait();
  }
  void reduce_scatter_all_gather(std::span<double> status, NumberSpan values, UseSums f) override {
    if constexpr (!SharingCollective<C>)
      AnyCollective::reduce_scatter_all_gather(status, values, f);
    else if constexpr (requires { collective_.reduce_scatter_all_gather(status, values, f); })
      collective_.reduce_scatter_all_gather(status, values, f);
    else
      typed(values, [&](auto span) { collective_.reduce_scatter_all_gather(status, span, f); });
  }
  void keep_residuals(std::span<const float> values, std::span<float> residuals) override {
    if constexpr (ResidualCollective<C>)
      collective_.keep_residuals(values, residuals);
    else
      AnyCollective::keep_residuals(values, residuals);
  }
  void reduce_scatter_blocks(NumberSpan values) override {
    if constexpr (ShardingCollective<C>)
      return typed(values, [&](auto span) { collective_.reduce_scatter_blocks(span); });
    AnyCollective::reduce_scatter_blocks(values);
  }
  void reduce_scatter_blocks_async(NumberSpan values) override {
    if constexpr (EarlyShardingCollective<C>)
      return typed(values, [&](auto span) { collective_.reduce_scatter_blocks_async(span); });
    AnyCollective::reduce_scatter_blocks_async(values);
  }
  void all_gather_blocks(NumberSpan values) override {
    if constexpr (ShardingCollective<C>)
      return typed(values, [&](auto span) { collective_.all_gather_blocks(span); });
    AnyCollective::all_gather_blocks(values);
  }

 private:
  static Abilities abilities(C& collective) {
    bool share = false;
    if constexpr (SharingCollective<C>) share = collective.shares_memory();
    bool keep_residuals = false;
    if constexpr (ResidualCollective<C>) keep_residuals = collective.keeps_residuals();
    return {.scatter = ScatteringCollective<C>,
            .scatter_early = EarlyScatteringCollective<C>,
            .overlap = OverlappingCollective<C>,
            .share = share,
            .keep_residuals = keep_residuals,
            .shard = ShardingCollective<C>,
            .shard_early = EarlyShardingCollective<C>};
  }
  static Overlap overlap_of(C& collective) {
    if constexpr (OverlappingCollective<C>) return collective.overlap();
    return Overlap::off;
  }

  /// For collectives that take spans of float and of double.
  template <class Values, class F>
  static void typed(Values values, F f) {
    if (values.type() == DataType::float32)
      f(values.template as<float>());
    else
      f(values.template as<double>());
  }

  Held collective_;
};

}  // namespace detail

/// Takes the collective over, or, where it is an lvalue, refers to it.
template <class C>
  requires Collective<std::remove_reference_t<C>>
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
