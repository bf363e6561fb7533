// Samples with their number in the pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Puts `start`, `start` + 1, ... before the elements of each sample. In float the numbers are
/// exact below 2^24, in double below 2^53.
class Enumerate {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  Enumerate(AnyStage upstream, std::int64_t start)
      : upstream_(std::move(upstream)), start_(start) {}

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  [[nodiscard]] std::int64_t cardinality() const { return upstream_.cardinality(); }
  [[nodiscard]] std::size_t sample_size() const { return 1 + upstream_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return upstream_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return upstream_.weight_size(); }
  [[nodiscard]] std::int64_t num_files() const { return upstream_.num_files(); }
  void shard_files(int num_shards, int index) { upstream_.shard_files(num_shards, index); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return {sample_size()}; }
  void describe(PipelineDescription& description) const;
  [[nodiscard]] SourceFingerprint fingerprint() const { return upstream_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return upstream_.sample_name(i); }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_numbered(ElementSpan samples, TensorView<T> x, TensorView<T> y);

  AnyStage upstream_;
  std::int64_t start_;
  std::int64_t position_ = 0;
  ElementBatch selected_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/enumerate.ipp"
#endif
