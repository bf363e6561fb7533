// Datasets in turn, some samples of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/any_pipeline.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

/// @code
/// interleave({from_csv("a.csv", columns), from_csv("b.csv", columns)}, {.block_length = 16})
/// @endcode
template <class Made = Interleave>
[[nodiscard]] Pipeline<Made> interleave(const std::vector<AnyPipeline>& datasets,
                                        InterleaveOptions options = {}) {
  return Pipeline<Made>(Made(detail::stages_of(datasets), options));
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/interleave.ipp"
#endif
