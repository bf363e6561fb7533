// The stage that a pipeline begins with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Goes through the samples of a source in order.
template <Source S>
class SourceStage {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = 0;
  static constexpr bool has_files = requires(S& source, const S& same, int n) {
    { same.num_files() } -> std::convertible_to<std::int64_t>;
    source.shard_files(n, n);
  };

  explicit SourceStage(S source) : source_(std::move(source)) {}

  void begin(Pass pass) {
    size_ = cardinality();
    position_ = 0;
    pass_ = RandomKey(pass.seed).fold_in(pass.path.value()).value();
  }

  bool next(Element& element) {
    if (position_ >= size_) return false;
    element.index = number(position_++);
    element.pass = pass_;
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t moved = std::min(n, size_ - position_);
    position_ += moved;
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    return static_cast<std::int64_t>(source_.size());
  }
  [[nodiscard]] std::size_t sample_size() const {
    return static_cast<std::size_t>(source_.sample_size());
  }
  [[nodiscard]] std::size_t target_size() const {
    return static_cast<std::size_t>(source_.target_size());
  }

  [[nodiscard]] std::size_t weight_size() const { return detail::weight_size_of(source_); }

  [[nodiscard]] std::int64_t num_files() const {
    if constexpr (has_files)
      return static_cast<std::int64_t>(source_.num_files());
    else
      return 0;
  }

  void shard_files([[maybe_unused]] int num_shards, [[maybe_unused]] int index) {
    if constexpr (has_files) source_.shard_files(num_shards, index);
  }

  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    if constexpr (requires { source_.sample_shape(); })
      return source_.sample_shape();
    else
      return {sample_size()};
  }

  void describe(PipelineDescription& description) const {
    if constexpr (requires { source_.describe(description); })
      source_.describe(description);
    else
      description.add({"from_source"});
  }

  [[nodiscard]] SourceFingerprint fingerprint() const {
    if constexpr (requires { source_.fingerprint(); }) {
      return source_.fingerprint();
    } else {
      const std::int64_t samples = cardinality();
      std::vector<std::int64_t> checked =
          detail::fingerprint_positions(samples, sample_size() + target_size());
      const auto count = static_cast<std::int64_t>(checked.size());
      if (count == 0) return {.samples = samples};
      for (std::int64_t& i : checked) i = number(i);
      detail::Scratch x_memory, y_memory;
      const TensorView<float> x = x_memory.view<float>(checked.size(), sample_size());
      const TensorView<float> y = y_memory.view<float>(checked.size(), target_size());
      S reader = source_;
      reader.read(std::span<const std::int64_t>(checked.data(), checked.size()), x, y);
      return {.samples = samples, .checked = count, .checksum = detail::fingerprint_checksum(x, y)};
    }
  }

  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    if constexpr (requires { source_.sample_name(i); })
      return source_.sample_name(i);
    else
      return concat({"sample ", i});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    source_.read(samples.indices, x, y);
  }

 private:
  [[nodiscard]] std::int64_t number(std::int64_t i) const {
    if constexpr (requires { source_.index(i); })
      return static_cast<std::int64_t>(source_.index(i));
    else
      return i;
  }

  S source_;
  std::int64_t size_ = 0;
  std::int64_t position_ = 0;
  std::uint64_t pass_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
