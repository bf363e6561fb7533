// One dataset after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/concatenate.ipp"
#endif
