// Stages of several pipelines: ConcatenateDataset, Interleave, SampleFromDatasets, Zip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Pipelines of samples behind one type, for lists of them. Every pipeline that is not batched
/// converts to it.
using AnyPipeline = Pipeline<AnyStage>;

namespace detail {

[[nodiscard]] std::vector<AnyStage> stages_of(const std::vector<AnyPipeline>& pipelines);

/// Several pipelines ("branches") whose samples have one size. Sample i of branch b of B has the
/// number i * B + b here, so numbers stay different and a sample knows its branch. Each branch has
/// different random keys.
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

  /// The pass of a branch, with its own seed.
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

}  // namespace detail

/// The samples of the first dataset, then those of the second, and so on. Their sizes must be
/// equal. `Pipeline::concatenate` makes it.
class ConcatenateDataset : public detail::JoinedStages {
 public:
  explicit ConcatenateDataset(std::vector<AnyStage> branches)
      : JoinedStages("concatenate", std::move(branches)) {}

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  /// The sum; infinite when one is, else unknown when one is.
  [[nodiscard]] std::int64_t cardinality() const { return total_cardinality(); }
  void describe(PipelineDescription& description) const {
    description.add({"concatenate", describe_branches(branches_)});
  }

 private:
  std::size_t current_ = 0;
};

struct InterleaveOptions {
  std::int64_t cycle_length = 0;  ///< how many datasets take turns; 0: all
  std::int64_t block_length = 1;  ///< samples in a turn
};

/// `block_length` samples of each of the first `cycle_length` datasets in turn. The place of a
/// dataset that has ended is taken by the next one of the list when its turn comes, as in tf.data.
class Interleave : public detail::JoinedStages {
 public:
  /// Throws ConfigurationError when there are no datasets, for a negative cycle_length and for a
  /// block_length below 1.
  Interleave(std::vector<AnyStage> branches, InterleaveOptions options);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  /// The sum; infinite when one is, else unknown when one is.
  [[nodiscard]] std::int64_t cardinality() const { return total_cardinality(); }
  void describe(PipelineDescription& description) const;

 private:
  /// The dataset whose turn it is, or the number of datasets when all have ended.
  [[nodiscard]] std::size_t turn();
  void end_turn() noexcept;
  void taken(std::int64_t samples) noexcept;

  InterleaveOptions options_;
  std::vector<std::size_t>
      cycle_;  ///< the datasets that take turns; branches_.size() for an empty place
  std::size_t place_ = 0;
  std::int64_t in_turn_ = 0;  ///< samples of the running turn
  std::size_t opened_ = 0;
  std::size_t ended_ = 0;
};

/// Several datasets in turn: `block_length` samples of one, then of the next.
/// @code
/// interleave({from_csv("a.csv", columns), from_csv("b.csv", columns)}, {.block_length = 16})
/// @endcode
/// Use: `interleave({samples, samples}, {.block_length = 16})`.
template <class Made = Interleave>
[[nodiscard]] Pipeline<Made> interleave(const std::vector<AnyPipeline>& datasets,
                                        InterleaveOptions options = {}) {
  return Pipeline<Made>(Made(detail::stages_of(datasets), options));
}

struct SampleFromDatasetsOptions {
  std::vector<double> weights = {};        ///< of the datasets, in any unit; empty: all alike
  std::optional<std::uint64_t> seed = {};  ///< without one, the run's
  bool stop_on_empty_dataset =
      false;  ///< ends where a drawn dataset has ended, instead of leaving it out
  bool rerandomize_each_iteration = true;  ///< else the same choice in every pass
};

/// Each sample is the next one of a dataset that is drawn with its weight. A dataset that has ended
/// is left out from there on.
class SampleFromDatasets : public detail::JoinedStages {
 public:
  /// Throws ConfigurationError when there are no datasets, and unless there is a finite weight of
  /// at least 0 for each, one of them above 0.
  SampleFromDatasets(std::vector<AnyStage> branches, SampleFromDatasetsOptions options);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  /// Infinite when one is (with stop_on_empty_dataset: when all are), else unknown, as in tf.data.
  /// Datasets of weight 0 do not count.
  [[nodiscard]] std::int64_t cardinality() const;
  void describe(PipelineDescription& description) const;

 private:
  /// Draws a dataset that has not ended; returns their number when all have.
  [[nodiscard]] std::size_t draw();
  void leave_out(std::size_t branch);

  SampleFromDatasetsOptions options_;
  std::vector<double> left_;  ///< the weights; 0 for a dataset that has ended
  RandomStream random_{RandomKey(0)};
};

/// Samples of several datasets, each drawn with its weight; one that has ended is left out.
/// @code
/// sample_from_datasets({positive.repeat(), negative.repeat()}, {.weights = {0.5, 0.5}}).batch(64)
/// @endcode
/// Use: `sample_from_datasets({samples, samples}, {.weights = {3, 1}})`.
template <class Made = SampleFromDatasets>
[[nodiscard]] Pipeline<Made> sample_from_datasets(const std::vector<AnyPipeline>& datasets,
                                                  SampleFromDatasetsOptions options = {}) {
  return Pipeline<Made>(Made(detail::stages_of(datasets), std::move(options)));
}

namespace detail {

/// Sample i of each of several datasets together; ends with the shortest. A sample has the number
/// that it has in the first.
class ZippedStages {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  /// `caller` names it for random keys.
  ZippedStages(const char* caller, std::vector<AnyStage> branches)
      : caller_(caller), branches_(std::move(branches)) {}

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  /// The smallest one; unknown when one is.
  [[nodiscard]] std::int64_t cardinality() const;
  [[nodiscard]] std::int64_t num_files() const { return JoinedStages::fewest_files(branches_); }
  void shard_files(int num_shards, int index);
  void describe(PipelineDescription& description) const {
    description.add({caller_, JoinedStages::describe_branches(branches_)});
  }
  [[nodiscard]] SourceFingerprint fingerprint() const {
    return JoinedStages::joined_fingerprint(branches_);
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return branches_[0].sample_name(i);
  }

 protected:
  const char* caller_;
  std::vector<AnyStage> branches_;
  ElementBatch selected_;
};

}  // namespace detail

/// Sample i of the first dataset together with sample i of the second; ends with the shorter one.
/// The first becomes the sample and the second its target, as fit takes the pairs of tf.data. (All
/// of each: a dataset with targets gives its samples, and behind them its targets.) Its weights are
/// those of either dataset; begin throws DataError when both have some.
class Zip : public detail::ZippedStages {
 public:
  Zip(AnyStage first, AnyStage second)
      : ZippedStages("zip", {std::move(first), std::move(second)}) {}

  void begin(Pass pass);
  [[nodiscard]] std::size_t sample_size() const {
    return branches_[0].sample_size() + branches_[0].target_size() - branches_[0].weight_size();
  }
  [[nodiscard]] std::size_t target_size() const {
    return branches_[1].sample_size() + branches_[1].target_size() + branches_[0].weight_size();
  }
  [[nodiscard]] std::size_t weight_size() const {
    return branches_[0].weight_size() + branches_[1].weight_size();
  }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const;
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_both(ElementSpan samples, TensorView<T> x, TensorView<T> y);

  detail::Scratch target_;  ///< of the first dataset, with its weights
};

/// The samples of several datasets side by side, flat, in their order; ends with the shortest one.
/// For models with several inputs or outputs: inputs() and targets() make it. begin throws
/// DataError when one has targets.
class SideBySide : public detail::ZippedStages {
 public:
  explicit SideBySide(std::vector<AnyStage> branches)
      : ZippedStages("side_by_side", std::move(branches)) {}

  void begin(Pass pass);
  [[nodiscard]] std::size_t sample_size() const;
  [[nodiscard]] std::size_t target_size() const { return 0; }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return {sample_size()}; }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_all(ElementSpan samples, TensorView<T> x);
};

namespace detail {
template <class Made, class... Stages>
[[nodiscard]] Pipeline<Made> side_by_side(const Pipeline<Stages>&... pipelines) {
  static_assert((!Pipeline<Stages>::is_batched && ...),
                "lockstep: inputs and targets work on single samples: write zip(...).batch(n)");
  return Pipeline<Made>(Made({AnyStage(pipelines.stage())...}));
}
}  // namespace detail

/// The inputs of a model with several: their samples side by side, for Inputs.
/// Use: `zip(inputs(range(10), range(10)), range(10))`. Keras: `Dataset.zip(((a, b), c))`.
template <class Made = SideBySide, class... Stages>
[[nodiscard]] Pipeline<Made> inputs(const Pipeline<Stages>&... pipelines) {
  return detail::side_by_side<Made>(pipelines...);
}
/// The targets of a model with several outputs, in the order of its losses.
/// Use: `zip(range(10), targets(range(10), range(10)))`. Keras: `Dataset.zip((a, (b, c)))`.
template <class Made = SideBySide, class... Stages>
[[nodiscard]] Pipeline<Made> targets(const Pipeline<Stages>&... pipelines) {
  return detail::side_by_side<Made>(pipelines...);
}

/// A pipeline of pairs: see Zip. Options are those of the first dataset.
/// Use: `zip(range(10), range(10))`.
template <class First, class Second, class Made = Zip>
[[nodiscard]] Pipeline<Made> zip(const Pipeline<First>& samples, const Pipeline<Second>& targets) {
  static_assert(!Pipeline<First>::is_batched && !Pipeline<Second>::is_batched,
                "lockstep: zip works on single samples: write zip(a, b).batch(n)");
  return Pipeline<Made>(Made(AnyStage(samples.stage()), AnyStage(targets.stage())),
                        samples.options());
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/joined_stages.ipp"
#endif
