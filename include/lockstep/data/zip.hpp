// Two datasets side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Sample i of the first dataset together with sample i of the second; ends with the shorter one.
/// The first becomes the sample and the second its target, as fit takes the pairs of tf.data. (All
/// of each: a dataset with targets gives its samples, and behind them its targets.) A sample has
/// the number that it has in the first dataset. Its weights are those of either dataset; begin
/// throws DataError when both have some.
class Zip {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  Zip(AnyStage first, AnyStage second);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  /// The smaller one; unknown when one is.
  [[nodiscard]] std::int64_t cardinality() const;
  [[nodiscard]] std::size_t sample_size() const {
    return branches_[0].sample_size() + branches_[0].target_size() - branches_[0].weight_size();
  }
  [[nodiscard]] std::size_t target_size() const {
    return branches_[1].sample_size() + branches_[1].target_size() + branches_[0].weight_size();
  }
  [[nodiscard]] std::size_t weight_size() const {
    return branches_[0].weight_size() + branches_[1].weight_size();
  }
  [[nodiscard]] std::int64_t num_files() const {
    return detail::JoinedStages::fewest_files(branches_);
  }
  void shard_files(int num_shards, int index);
  [[nodiscard]] std::vector<std::size_t> sample_shape() const;
  void describe(PipelineDescription& description) const {
    description.add({"zip", detail::JoinedStages::describe_branches(branches_)});
  }
  [[nodiscard]] SourceFingerprint fingerprint() const {
    return detail::JoinedStages::joined_fingerprint(branches_);
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return branches_[0].sample_name(i);
  }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_both(ElementSpan samples, TensorView<T> x, TensorView<T> y);

  std::vector<AnyStage> branches_;
  ElementBatch selected_;
  detail::Scratch target_;  ///< of the first dataset, with its weights
};

/// A pipeline of pairs: see Zip. Options are those of the first dataset.
template <class First, class Second, class Made = Zip>
[[nodiscard]] Pipeline<Made> zip(const Pipeline<First>& samples, const Pipeline<Second>& targets) {
  static_assert(!Pipeline<First>::is_batched && !Pipeline<Second>::is_batched,
                "lockstep: zip works on single samples: write zip(a, b).batch(n)");
  return Pipeline<Made>(Made(AnyStage(samples.stage()), AnyStage(targets.stage())),
                        samples.options());
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/zip.ipp"
#endif
