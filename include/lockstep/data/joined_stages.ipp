#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/joined_stages.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE std::vector<AnyStage> stages_of(const std::vector<AnyPipeline>& pipelines) {
  std::vector<AnyStage> stages;
  stages.reserve(pipelines.size());
  for (const AnyPipeline& pipeline : pipelines) stages.push_back(pipeline.stage());
  return stages;
}

/// Added to the `pass` of a sample where it leaves a branch, and taken off where it is read.
inline constexpr std::uint64_t joined_pass = 0x9E3779B97F4A7C15;

LOCKSTEP_INLINE JoinedStages::JoinedStages(const char* caller, std::vector<AnyStage> branches)
    : caller_(caller), branches_(std::move(branches)) {
  if (branches_.empty())
    throw ConfigurationError(concat({caller_, ": there are no datasets; give at least one"}));
}

LOCKSTEP_INLINE void JoinedStages::shard_files(int num_shards, int index) {
  for (AnyStage& branch : branches_) branch.shard_files(num_shards, index);
}

LOCKSTEP_INLINE std::string JoinedStages::sample_name(std::int64_t i) const {
  const auto count = static_cast<std::int64_t>(branches_.size());
  return concat({branches_[static_cast<std::size_t>(i % count)].sample_name(i / count),
                 " of dataset ", i % count});
}

LOCKSTEP_INLINE Pass JoinedStages::branch_pass(Pass pass, std::size_t branch) noexcept {
  constexpr std::uint64_t tag = 0x6272616E6368;  // "branch"
  return {RandomKey(pass.seed).fold_in(tag).fold_in(branch).value(), pass.path};
}

LOCKSTEP_INLINE std::int64_t JoinedStages::fewest_files(const std::vector<AnyStage>& branches) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const AnyStage& branch : branches) fewest = std::min(fewest, branch.num_files());
  return fewest;
}

LOCKSTEP_INLINE SourceFingerprint
JoinedStages::joined_fingerprint(const std::vector<AnyStage>& branches) {
  SourceFingerprint joined{.samples = 0};
  for (const AnyStage& branch : branches) {
    const SourceFingerprint own = branch.fingerprint();
    joined.samples =
        joined.samples < 0 || own.samples < 0 ? unknown_cardinality : joined.samples + own.samples;
    joined.checked += own.checked;
    joined.checksum = crc32c(std::as_bytes(std::span(&own.checksum, 1)), joined.checksum);
  }
  return joined;
}

LOCKSTEP_INLINE std::string JoinedStages::describe_branches(const std::vector<AnyStage>& branches) {
  std::string text = "(";
  for (const AnyStage& branch : branches) {
    PipelineDescription own;
    branch.describe(own);
    text += (text.size() > 1 ? ", " : "") + own.text;
  }
  return text + ")";
}

LOCKSTEP_INLINE void JoinedStages::begin_branches(Pass pass) {
  const std::size_t samples = sample_size(), targets = target_size();
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    if (branches_[b].weight_size() != weight_size())
      throw DataError(concat(
          {caller_, ": all datasets need samples with the same weights: dataset 0 has ",
           weight_size(), " for each sample, dataset ", b, " has ", branches_[b].weight_size()}));
    if (branches_[b].sample_size() != samples || branches_[b].target_size() != targets)
      throw DataError(concat({caller_, ": all datasets need samples of one size: dataset 0 has ",
                              samples, " elements and ", targets, " targets, dataset ", b, " has ",
                              branches_[b].sample_size(), " and ", branches_[b].target_size()}));
    branches_[b].begin(branch_pass(pass, b));
  }
}

LOCKSTEP_INLINE bool JoinedStages::next_of(std::size_t branch, Element& element) {
  if (!branches_[branch].next(element)) return false;
  const auto count = static_cast<std::int64_t>(branches_.size());
  if (element.index > std::numeric_limits<std::int64_t>::max() / count - 1)
    throw DataError(concat({caller_, ": sample number ", element.index, " is too large for ", count,
                            " datasets; join fewer datasets, or datasets of fewer files"}));
  element.index = element.index * count + static_cast<std::int64_t>(branch);
  element.pass += joined_pass;
  return true;
}

LOCKSTEP_INLINE std::int64_t JoinedStages::total_cardinality() const {
  std::int64_t total = 0;
  for (const AnyStage& branch : branches_) {
    const std::int64_t own = branch.cardinality();
    if (own == infinite_cardinality) return infinite_cardinality;
    if (own < 0 || total < 0)
      total = unknown_cardinality;
    else
      total = own > std::numeric_limits<std::int64_t>::max() - total ? unknown_cardinality
                                                                     : total + own;
  }
  return total;
}

template <class T>
void JoinedStages::read_branches(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const auto count = static_cast<std::int64_t>(branches_.size());
  for (std::int64_t b = 0; b < count; ++b) {
    selected_.clear();
    rows_.clear();
    for (std::size_t i = 0; i < samples.indices.size(); ++i)
      if (samples.indices[i] % count == b) {
        selected_.push_back(samples.indices[i] / count, samples.passes[i] - joined_pass,
                            samples.parts_of(i));
        rows_.push_back(i);
      }
    if (rows_.empty()) continue;
    AnyStage& branch = branches_[static_cast<std::size_t>(b)];
    if (rows_.size() == samples.indices.size()) {
      branch.read(selected_, x, y);
      return;
    }
    const TensorView<T> from_x = samples_.template view<T>(rows_.size(), x.features());
    const TensorView<T> from_y = targets_.template view<T>(rows_.size(), y.features());
    branch.read(selected_, from_x, from_y);
    for (std::size_t f = 0; f < x.features(); ++f)
      for (std::size_t i = 0; i < rows_.size(); ++i) x(rows_[i], f) = from_x(i, f);
    for (std::size_t f = 0; f < y.features(); ++f)
      for (std::size_t i = 0; i < rows_.size(); ++i) y(rows_[i], f) = from_y(i, f);
  }
}

LOCKSTEP_INLINE void JoinedStages::read(ElementSpan samples, TensorView<float> x,
                                        TensorView<float> y) {
  read_branches(samples, x, y);
}
LOCKSTEP_INLINE void JoinedStages::read(ElementSpan samples, TensorView<double> x,
                                        TensorView<double> y) {
  read_branches(samples, x, y);
}

}  // namespace detail

LOCKSTEP_INLINE void ConcatenateDataset::begin(Pass pass) {
  begin_branches(pass);
  current_ = 0;
}

LOCKSTEP_INLINE bool ConcatenateDataset::next(Element& element) {
  for (; current_ < branches_.size(); ++current_)
    if (next_of(current_, element)) return true;
  return false;
}

LOCKSTEP_INLINE std::int64_t ConcatenateDataset::advance(std::int64_t n) {
  std::int64_t moved = 0;
  for (; moved < n && current_ < branches_.size(); ++current_) {
    moved += branches_[current_].advance(n - moved);
    if (moved == n) break;
  }
  return moved;
}

LOCKSTEP_INLINE Interleave::Interleave(std::vector<AnyStage> branches, InterleaveOptions options)
    : JoinedStages("interleave", std::move(branches)), options_(options) {
  if (options.cycle_length < 0)
    throw ConfigurationError(
        concat({"interleave: cycle_length must be at least 1, or 0 for all datasets, got ",
                options.cycle_length}));
  if (options.block_length < 1)
    throw ConfigurationError(
        concat({"interleave: block_length must be at least 1, got ", options.block_length}));
}

LOCKSTEP_INLINE void Interleave::begin(Pass pass) {
  begin_branches(pass);
  const std::size_t all = branches_.size();
  const auto length = static_cast<std::uint64_t>(options_.cycle_length);
  cycle_.assign(length == 0 ? all : static_cast<std::size_t>(std::min<std::uint64_t>(length, all)),
                all);
  place_ = opened_ = ended_ = 0;
  in_turn_ = 0;
}

LOCKSTEP_INLINE std::size_t Interleave::turn() {
  while (ended_ < branches_.size()) {
    if (cycle_[place_] == branches_.size() && opened_ < branches_.size())
      cycle_[place_] = opened_++;
    if (cycle_[place_] < branches_.size()) break;
    end_turn();
  }
  return ended_ < branches_.size() ? cycle_[place_] : branches_.size();
}

LOCKSTEP_INLINE void Interleave::end_turn() noexcept {
  place_ = (place_ + 1) % cycle_.size();
  in_turn_ = 0;
}

LOCKSTEP_INLINE void Interleave::taken(std::int64_t samples) noexcept {
  in_turn_ += samples;
  if (in_turn_ == options_.block_length) end_turn();
}

LOCKSTEP_INLINE bool Interleave::next(Element& element) {
  for (std::size_t branch = turn(); branch < branches_.size(); branch = turn()) {
    if (next_of(branch, element)) {
      taken(1);
      return true;
    }
    cycle_[place_] = branches_.size();
    ++ended_;
    end_turn();
  }
  return false;
}

LOCKSTEP_INLINE std::int64_t Interleave::advance(std::int64_t n) {
  std::int64_t moved = 0;
  while (moved < n) {
    const std::size_t branch = turn();
    if (branch == branches_.size()) break;
    const std::int64_t wanted = std::min(n - moved, options_.block_length - in_turn_);
    const std::int64_t got = branches_[branch].advance(wanted);
    moved += got;
    if (got < wanted) {
      cycle_[place_] = branches_.size();
      ++ended_;
      end_turn();
    } else {
      taken(got);
    }
  }
  return moved;
}

LOCKSTEP_INLINE void Interleave::describe(PipelineDescription& description) const {
  description.add({"interleave", describe_branches(branches_), " (", options_.cycle_length, ", ",
                   options_.block_length, ")"});
}

LOCKSTEP_INLINE SampleFromDatasets::SampleFromDatasets(std::vector<AnyStage> branches,
                                                       SampleFromDatasetsOptions options)
    : JoinedStages("sample_from_datasets", std::move(branches)), options_(std::move(options)) {
  if (options_.weights.empty()) options_.weights.assign(branches_.size(), 1.0);
  if (options_.weights.size() != branches_.size())
    throw ConfigurationError(
        concat({"sample_from_datasets: expected a weight for each of the ", branches_.size(),
                " datasets, got ", options_.weights.size()}));
  double sum = 0;
  for (const double weight : options_.weights) {
    if (!std::isfinite(weight) || weight < 0)
      throw ConfigurationError(
          concat({"sample_from_datasets: a weight must be finite and at least 0, got ", weight}));
    sum += weight;
  }
  if (!(sum > 0))
    throw ConfigurationError("sample_from_datasets: all weights are 0; one must be above");
  for (double& weight : options_.weights) weight /= sum;
}

LOCKSTEP_INLINE void SampleFromDatasets::begin(Pass pass) {
  begin_branches(pass);
  RandomKey key = options_.seed ? RandomKey(*options_.seed) : RandomKey(pass.seed).fold_in(depth);
  if (options_.rerandomize_each_iteration) key = key.fold_in(pass.path.value());
  random_ = RandomStream(key);
  left_ = options_.weights;
}

LOCKSTEP_INLINE std::size_t SampleFromDatasets::draw() {
  double sum = 0;
  for (const double weight : left_) sum += weight;
  std::size_t last = left_.size();
  if (!(sum > 0)) return last;
  double at = random_.uniform() * sum;
  for (std::size_t b = 0; b < left_.size(); ++b) {
    if (left_[b] == 0) continue;
    last = b;  // also where rounding leaves `at` above all weights
    if (at < left_[b]) break;
    at -= left_[b];
  }
  return last;
}

LOCKSTEP_INLINE void SampleFromDatasets::leave_out(std::size_t branch) {
  if (options_.stop_on_empty_dataset)
    left_.assign(left_.size(), 0.0);
  else
    left_[branch] = 0;
}

LOCKSTEP_INLINE bool SampleFromDatasets::next(Element& element) {
  for (std::size_t branch = draw(); branch < branches_.size(); branch = draw()) {
    if (next_of(branch, element)) return true;
    leave_out(branch);
  }
  return false;
}

LOCKSTEP_INLINE std::int64_t SampleFromDatasets::advance(std::int64_t n) {
  std::int64_t moved = 0;
  while (moved < n) {
    const std::size_t branch = draw();
    if (branch == branches_.size()) break;
    if (branches_[branch].advance(1) == 1)
      ++moved;
    else
      leave_out(branch);
  }
  return moved;
}

LOCKSTEP_INLINE std::int64_t SampleFromDatasets::cardinality() const {
  bool all = true, one = false;
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    if (options_.weights[b] == 0) continue;
    const bool endless = branches_[b].cardinality() == infinite_cardinality;
    all = all && endless;
    one = one || endless;
  }
  return (options_.stop_on_empty_dataset ? all : one) ? infinite_cardinality : unknown_cardinality;
}

LOCKSTEP_INLINE void SampleFromDatasets::describe(PipelineDescription& description) const {
  std::string weights;
  for (const double weight : options_.weights)
    weights += concat({weights.empty() ? "" : ", ", weight});
  description.add({"sample_from_datasets", describe_branches(branches_), " with weights ", weights,
                   options_.seed ? concat({", seed ", *options_.seed}) : std::string(),
                   options_.stop_on_empty_dataset ? ", stop on an empty one" : "",
                   options_.rerandomize_each_iteration ? "" : ", the same choice each time"});
}

namespace detail {

LOCKSTEP_INLINE void ZippedStages::begin(Pass pass) {
  for (std::size_t b = 0; b < branches_.size(); ++b)
    branches_[b].begin(JoinedStages::branch_pass(pass, b));
}

LOCKSTEP_INLINE bool ZippedStages::next(Element& element) {
  std::vector<Element> parts(branches_.size());
  for (std::size_t b = 0; b < parts.size(); ++b)
    if (!branches_[b].next(parts[b])) return false;
  element.index = parts[0].index;
  element.pass = rekeyed(parts[0].pass, caller_);
  element.parts = std::move(parts);
  return true;
}

LOCKSTEP_INLINE std::int64_t ZippedStages::advance(std::int64_t n) {
  for (AnyStage& branch : branches_) n = std::min(n, branch.advance(n));
  return n;
}

LOCKSTEP_INLINE std::int64_t ZippedStages::cardinality() const {
  std::int64_t smallest = infinite_cardinality;
  for (const AnyStage& branch : branches_) {
    const std::int64_t size = branch.cardinality();
    if (size == unknown_cardinality) return unknown_cardinality;
    if (size == infinite_cardinality) continue;
    smallest = smallest == infinite_cardinality ? size : std::min(smallest, size);
  }
  return smallest;
}

LOCKSTEP_INLINE void ZippedStages::shard_files(int num_shards, int index) {
  for (AnyStage& branch : branches_) branch.shard_files(num_shards, index);
}

}  // namespace detail

LOCKSTEP_INLINE void Zip::begin(Pass pass) {
  if (branches_[0].weight_size() > 0 && branches_[1].weight_size() > 0)
    throw DataError(
        "zip: the samples of both datasets have weights, and a pair has only one set of them: map "
        "those of one away with {.weight_size = 0}");
  ZippedStages::begin(pass);
}

LOCKSTEP_INLINE std::vector<std::size_t> Zip::sample_shape() const {
  if (branches_[0].target_size() == branches_[0].weight_size()) return branches_[0].sample_shape();
  return {sample_size()};
}

template <class T>
void Zip::read_both(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const std::size_t weights = branches_[0].weight_size();  // they come last
  if (!x.empty()) {
    detail::parts_numbered(samples, 0, selected_);
    const std::size_t size = branches_[0].sample_size(), rest = x.features() - size;
    const TensorView<T> to = weights > 0 ? target_.view<T>(selected_.size(), rest + weights)
                                         : detail::features_of(x, size, rest);
    branches_[0].read(selected_, detail::features_of(x, 0, size), to);
    if (weights > 0) detail::copy_features(detail::features_of(to, 0, rest), x, size);
    if (weights > 0 && !y.empty())
      detail::copy_features(detail::features_of(to, rest, weights), y, y.features() - weights);
  }
  if (!y.empty()) {
    detail::parts_numbered(samples, 1, selected_);
    const std::size_t size = branches_[1].sample_size();
    branches_[1].read(selected_, detail::features_of(y, 0, size),
                      detail::features_of(y, size, y.features() - weights - size));
  }
}

LOCKSTEP_INLINE void Zip::read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
  read_both(samples, x, y);
}
LOCKSTEP_INLINE void Zip::read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
  read_both(samples, x, y);
}

LOCKSTEP_INLINE void SideBySide::begin(Pass pass) {
  for (std::size_t b = 0; b < branches_.size(); ++b)
    if (branches_[b].target_size() > 0)
      throw DataError(
          concat({"inputs, targets: the samples of dataset ", b + 1, " of ", branches_.size(),
                  " have targets; expected samples alone: zip(inputs(...), "
                  "targets(...)) joins the two"}));
  ZippedStages::begin(pass);
}

LOCKSTEP_INLINE std::size_t SideBySide::sample_size() const {
  std::size_t all = 0;
  for (const AnyStage& branch : branches_) all += branch.sample_size();
  return all;
}

template <class T>
void SideBySide::read_all(ElementSpan samples, TensorView<T> x) {
  std::size_t first = 0;
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    const std::size_t size = branches_[b].sample_size();
    detail::parts_numbered(samples, b, selected_);
    branches_[b].read(selected_, detail::features_of(x, first, size), TensorView<T>());
    first += size;
  }
}

LOCKSTEP_INLINE void SideBySide::read(ElementSpan samples, TensorView<float> x, TensorView<float>) {
  read_all(samples, x);
}
LOCKSTEP_INLINE void SideBySide::read(ElementSpan samples, TensorView<double> x,
                                      TensorView<double>) {
  read_all(samples, x);
}

}}  // namespace lockstep
