// Consecutive samples joined to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// `size` samples, `stride` apart, become one of shape (size, sample shape): a Sequence. Windows
/// begin `shift` samples apart (0: size, so that they do not overlap). A last one that would be
/// shorter is left out (tf.data's drop_remainder=True), since all samples have one size. The
/// targets of all `size` samples are joined, too, and behind them their weights: one for each
/// token. A window has the number of its first sample.
class Window {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  /// Throws ConfigurationError unless size and stride are at least 1, and shift at least 0.
  Window(AnyStage upstream, std::int64_t size, std::int64_t shift, std::int64_t stride);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  [[nodiscard]] std::int64_t cardinality() const;
  [[nodiscard]] std::size_t sample_size() const {
    return static_cast<std::size_t>(size_) * upstream_.sample_size();
  }
  [[nodiscard]] std::size_t target_size() const {
    return static_cast<std::size_t>(size_) * upstream_.target_size();
  }
  [[nodiscard]] std::size_t weight_size() const {
    return static_cast<std::size_t>(size_) * upstream_.weight_size();
  }
  [[nodiscard]] std::int64_t num_files() const { return upstream_.num_files(); }
  void shard_files(int num_shards, int index) { upstream_.shard_files(num_shards, index); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const;
  void describe(PipelineDescription& description) const;
  [[nodiscard]] SourceFingerprint fingerprint() const { return upstream_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return upstream_.sample_name(i); }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  /// How many of `samples` samples a window takes up, and how many windows they make.
  [[nodiscard]] std::int64_t windows_in(std::int64_t samples) const noexcept;
  /// Lets `samples` samples go by; returns how many there were.
  std::int64_t drop(std::int64_t samples);
  template <class T>
  void read_parts(ElementSpan samples, TensorView<T> x, TensorView<T> y);

  AnyStage upstream_;
  std::int64_t size_;
  std::int64_t shift_;
  std::int64_t stride_;
  std::int64_t span_;           ///< samples from the first of a window to its last
  std::deque<Element> buffer_;  ///< the samples from the next window's first on
  ElementBatch selected_;
  detail::Scratch target_;  ///< of one sample, with its weights
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/window.ipp"
#endif
