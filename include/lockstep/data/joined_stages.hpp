// What stages that take their samples from several pipelines have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Several pipelines ("branches") whose samples have one size. Sample i of branch b of B has the
/// number i * B + b here, so numbers stay different and a sample knows its branch. Each branch has
/// random keys of its own.
///
/// With AutoShardPolicy::file, the files of each branch are divided; there are as many as the
/// branch with the fewest has.
class JoinedStages {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  /// Throws ConfigurationError, naming `caller`, when there are no branches.
  JoinedStages(const char* caller, std::vector<AnyStage> branches);

  [[nodiscard]] std::size_t sample_size() const { return branches_.front().sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return branches_.front().target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return branches_.front().weight_size(); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return branches_.front().sample_shape();
  }
  [[nodiscard]] std::int64_t num_files() const { return fewest_files(branches_); }
  void shard_files(int num_shards, int index);
  [[nodiscard]] SourceFingerprint fingerprint() const { return joined_fingerprint(branches_); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const;
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

  /// The pass of a branch, with a seed of its own.
  [[nodiscard]] static Pass branch_pass(Pass pass, std::size_t branch) noexcept;
  [[nodiscard]] static std::int64_t fewest_files(const std::vector<AnyStage>& branches);
  [[nodiscard]] static SourceFingerprint joined_fingerprint(const std::vector<AnyStage>& branches);
  /// "(a -> b, c -> d)"
  [[nodiscard]] static std::string describe_branches(const std::vector<AnyStage>& branches);

 protected:
  /// Starts a pass over all branches. Throws DataError when their samples differ in size.
  void begin_branches(Pass pass);
  /// The next element of a branch, with its number here.
  bool next_of(std::size_t branch, Element& element);
  /// The sum of the branches'; infinite when one is, else unknown when one is.
  [[nodiscard]] std::int64_t total_cardinality() const;

  const char* caller_;
  std::vector<AnyStage> branches_;

 private:
  template <class T>
  void read_branches(ElementSpan samples, TensorView<T> x, TensorView<T> y);

  ElementBatch selected_;
  std::vector<std::size_t> rows_;
  Scratch samples_;
  Scratch targets_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/joined_stages.ipp"
#endif
