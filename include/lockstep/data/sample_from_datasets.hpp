// Samples drawn at random from several datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/any_pipeline.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
  /// The number of a dataset that has not ended, or that of datasets when there is none.
  [[nodiscard]] std::size_t draw();
  void leave_out(std::size_t branch);

  SampleFromDatasetsOptions options_;
  std::vector<double> left_;  ///< the weights; 0 for a dataset that has ended
  RandomStream random_{RandomKey(0)};
};

/// @code
/// sample_from_datasets({positive.repeat(), negative.repeat()}, {.weights = {0.5, 0.5}}).batch(64)
/// @endcode
template <class Made = SampleFromDatasets>
[[nodiscard]] Pipeline<Made> sample_from_datasets(const std::vector<AnyPipeline>& datasets,
                                                  SampleFromDatasetsOptions options = {}) {
  return Pipeline<Made>(Made(detail::stages_of(datasets), std::move(options)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/sample_from_datasets.ipp"
#endif
