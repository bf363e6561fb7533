// The stage that a pipeline begins with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/core/config.hpp"
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

  [[nodiscard]] std::int64_t cardinality() const { return static_cast<std::int64_t>(source_.size()); }
  [[nodiscard]] std::size_t sample_size() const { return static_cast<std::size_t>(source_.sample_size()); }
  [[nodiscard]] std::size_t target_size() const { return static_cast<std::size_t>(source_.target_size()); }

  [[nodiscard]] std::int64_t num_files() const {
    if constexpr (has_files)
      return static_cast<std::int64_t>(source_.num_files());
    else
      return 0;
  }

  void shard_files([[maybe_unused]] int num_shards, [[maybe_unused]] int index) {
    if constexpr (has_files) source_.shard_files(num_shards, index);
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
