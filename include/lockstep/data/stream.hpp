// Samples that a stream gives one after the other, until it ends.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct StreamSizes {
  std::size_t sample_size = 0;  ///< elements per sample
  std::size_t target_size = 0;  ///< elements per target
  std::size_t weight_size = 0;  ///< of a sample's weights: 0, or 1
  std::size_t keep = 1024;      ///< newest samples that stay in memory, at least
};

namespace detail {

/// A stream that is open.
class OpenStream {
 public:
  OpenStream() = default;
  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;
  virtual ~OpenStream() = default;
  virtual bool next(Sample<float>& sample) = 0;
};
/// Opens the stream for one pass over the data; the key seeds random numbers of that pass.
using OpensStream = std::function<std::unique_ptr<OpenStream>(RandomKey key)>;

template <class Next>
class OpenStreamOf final : public OpenStream {
 public:
  explicit OpenStreamOf(Next next) : next_(std::move(next)) {}
  bool next(Sample<float>& sample) override { return next_(sample); }

 private:
  Next next_;
};

/// The stream of one pass, for all copies of a pipeline in a process.
class StreamRun;
/// What opens streams, and the runs that are under way.
class StreamRuns;

template <class Open>
OpensStream opens_stream(Open open) {
  constexpr bool takes_key = std::invocable<Open&, RandomKey>;
  static_assert(takes_key || std::invocable<Open&>,
                "lockstep: the function of from_stream(open, sizes) must be callable as open() or "
                "open(lockstep::RandomKey)");
  return [open = std::move(open)](RandomKey key) mutable -> std::unique_ptr<OpenStream> {
    auto next = [&] {
      if constexpr (takes_key)
        return open(key);
      else
        return open();
    }();
    static_assert(
        requires(Sample<float>& sample) {
          { next(sample) } -> std::convertible_to<bool>;
        },
        "lockstep: what open() of from_stream returns must be callable as bool "
        "next(lockstep::Sample<float>&): false at the end");
    return std::make_unique<OpenStreamOf<decltype(next)>>(std::move(next));
  };
}

}  // namespace detail

/// A Stage of the samples of a stream; see from_stream.
class StreamStage {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = 0;

  /// Throws ConfigurationError unless samples have elements.
  StreamStage(detail::OpensStream open, const StreamSizes& sizes);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n);
  [[nodiscard]] std::int64_t cardinality() const noexcept { return unknown_cardinality; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sizes_.sample_size; }
  [[nodiscard]] std::size_t target_size() const noexcept {
    return sizes_.target_size + sizes_.weight_size;
  }
  [[nodiscard]] std::size_t weight_size() const noexcept { return sizes_.weight_size; }
  [[nodiscard]] std::int64_t num_files() const noexcept { return 0; }
  void shard_files(int, int) noexcept {}
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return {sizes_.sample_size}; }
  void describe(PipelineDescription& description) const { description.add({"from_stream"}); }
  [[nodiscard]] SourceFingerprint fingerprint() const noexcept { return {}; }
  [[nodiscard]] std::string sample_name(std::int64_t i) const;
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_kept(ElementSpan samples, TensorView<T> x, TensorView<T> y);
  void copy_sample(std::uint64_t pass, std::int64_t number, std::vector<float>& to);

  StreamSizes sizes_;
  std::shared_ptr<detail::StreamRuns> runs_;
  std::deque<std::shared_ptr<detail::StreamRun>> passes_;  ///< the running one last
  std::shared_ptr<detail::StreamRun> again_;  ///< one opened once more, for a sample of long ago
  std::int64_t position_ = 0;
};

/// A pipeline of samples that come one after the other until there are no more: lines of a pipe, a
/// simulation, a query. `open()` begins a stream and returns what gives its samples: `bool
/// next(Sample<float>& sample)` writes sample.x and sample.y, which are zero before, or returns
/// false at the end. What it returns may be move-only and holds the stream's state.
/// @code
/// auto data = lockstep::from_stream(
///     [] {
///       return [file = std::ifstream("numbers.txt")](lockstep::Sample<float>& sample) mutable {
///         return static_cast<bool>(file >> sample.x[0] >> sample.y[0]);
///       };
///     },
///     {.sample_size = 1, .target_size = 1});
/// @endcode
/// Each epoch, and each repetition of `repeat`, opens the stream anew, as tf.data's from_generator
/// calls its function. `open(RandomKey key)` is given a key of the pass, the same on all ranks, for
/// a different order in each. The cardinality is unknown: fit goes on to the end of the stream
/// in each epoch, or for steps_per_epoch; one without an end needs these.
///
/// Each process reads the whole stream, once for all of its replicas, and each rank takes its share
/// of every batch, so all must get the same samples. With AutoShardPolicy::off each worker has a
/// stream by itself; one that ends earlier takes part without samples until all have ended.
///
/// The newest `keep` samples stay in memory; where reading has needed more, twice as many as that;
/// and those that came after the last read, up to 16 times `keep`. So a batch larger than `keep`
/// and the stragglers of a shuffle find their samples. A sample that is gone all the same, a
/// replica that begins after the first one is gone, a seek backwards and a resumed run open the
/// stream again and skip: `open` must give the same samples each time for a key. The streams of one
/// pass in a process are compared (samples 0 to 63, 127, 255 and so on, and the end); a difference
/// is a DataError that says what to raise. For a stream that cannot be read twice (std::cin), let
/// `keep` be at least several times shuffle's buffer plus batch x (2 + prefetch), and do not resume
/// in the middle of an epoch: a new process has nothing to compare with.
///
/// Calls of next are made one at a time, by any thread; while one waits, other threads still read
/// the samples that have come. An exception of `next` ends the training of all. Throws
/// ConfigurationError for samples without elements.
/// Use: `from_stream([] { return [n = 0](Sample<float>& sample) mutable { sample.x[0] = float(n);
/// return n++ < 100; }; }, {.sample_size = 1})`. Keras: `Dataset.from_generator`.
template <class Open, class Made = StreamStage>
[[nodiscard]] auto from_stream(Open open, const StreamSizes& sizes) {
  return Pipeline<Made>(Made(detail::opens_stream(std::move(open)), sizes));
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/stream.ipp"
#endif
