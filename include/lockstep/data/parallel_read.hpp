// Several threads read a batch.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// How many threads parallel_read(num_threads) means. Throws ConfigurationError unless that is
/// autotune or in [1, 256].
[[nodiscard]] std::size_t reading_threads(std::int64_t num_threads);

/// Threads that wait for work. A copy begins without any. Used by one thread.
class ReadingThreads {
 public:
  ReadingThreads() noexcept = default;
  ReadingThreads(const ReadingThreads&) noexcept {}
  ReadingThreads(ReadingThreads&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ReadingThreads& operator=(ReadingThreads other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~ReadingThreads();

  /// Calls f(0), f(1), ..., f(n - 1) at once, the first of them on the calling thread, and waits
  /// for all. If several throw, rethrows the exception of the lowest number.
  void run(std::size_t n, FunctionRef<void(std::size_t)> f);

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace detail

/// The samples of a batch are read by several threads, each with its copy of the stages upstream:
/// sources, maps, interleaved files. Order, samples and random numbers are as with one thread.
/// A thread reads 16 samples of a batch or more; the last one may read fewer.
/// Use: `samples.map([](auto& sample) { sample.x[0] *= 2; }).parallel_read(2)`. TensorFlow:
/// `num_parallel_calls`.
template <class Upstream>
class ParallelRead : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;
  static_assert(
      std::same_as<typename Upstream::item_type, Element>,
      "lockstep: parallel_read works on single samples: write .parallel_read(n).batch(n)");

 public:
  static constexpr std::uint64_t depth = Upstream::depth;  // random keys are those without it

  ParallelRead(Upstream upstream, std::int64_t num_threads)
      : Transform<Upstream>(std::move(upstream)), size_(detail::reading_threads(num_threads)) {}
  ParallelRead(const ParallelRead& other) : Transform<Upstream>(other), size_(other.size_) {}
  ParallelRead(ParallelRead&&) noexcept(std::is_nothrow_move_constructible_v<Upstream>) = default;
  ParallelRead& operator=(ParallelRead other) noexcept {
    upstream_ = std::move(other.upstream_);
    size_ = other.size_;
    readers_ = std::move(other.readers_);
    threads_ = std::move(other.threads_);
    return *this;
  }
  ~ParallelRead() = default;

  void begin(Pass pass) {
    readers_.clear();
    upstream_.begin(pass);
  }
  void shard_files(int num_shards, int index) {
    readers_.clear();
    upstream_.shard_files(num_shards, index);
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    const std::size_t count = samples.indices.size();
    const std::size_t most = (count + batch_multiple - 1) / batch_multiple;  // a cache line each
    const std::size_t parts = std::min(size_, most);
    if (parts < 2) return upstream_.read(samples, x, y);
    while (readers_.size() < parts - 1) readers_.push_back(upstream_);
    threads_.run(parts, [&](std::size_t part) {
      const std::size_t begin = most * part / parts * batch_multiple;
      const std::size_t end = std::min(count, most * (part + 1) / parts * batch_multiple);
      const auto of = [&](auto span) {
        return span.empty() ? span : span.subspan(begin, end - begin);
      };
      const auto rows = [&](const TensorView<T>& view) {
        return view.empty() ? view
                            : TensorView<T>(view.data() + begin, end - begin, view.features(),
                                            view.stride());
      };
      (part == 0 ? upstream_ : readers_[part - 1])
          .read(ElementSpan{of(samples.indices), of(samples.passes), of(samples.parts)}, rows(x),
                rows(y));
    });
  }

 private:
  std::size_t size_;
  std::vector<Upstream> readers_;  ///< copies, made when a pass first needs them
  detail::ReadingThreads threads_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/parallel_read.ipp"
#endif
