// Pipelines: sources and stages behind one another, a method each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/order.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

namespace detail {

/// What a pipeline is asked to read, and into what.
struct ReadRequest {
  std::span<const std::size_t> positions;
  std::size_t batch = 0;  ///< samples in it
  std::size_t sample_size = 0, target_size = 0;
  std::size_t x_samples = 0, x_features = 0;
  std::size_t y_samples = 0, y_features = 0;
  bool without_targets = false;
};

/// Throws DataError when the views have other sizes, and for positions behind the batch.
void check_read(const ReadRequest& request);

/// Throws Error before the first pass, and for a negative position.
void check_seek(bool has_begun, std::int64_t position);

}  // namespace detail

/// The part of Pipeline that is a Dataset: a stage, and the batch in which a pass over it is.
/// Pipeline adds what makes new pipelines of one.
template <Stage S>
class PipelinePass {
 public:
  static constexpr bool is_batched = std::is_same_v<typename S::item_type, ElementBatch>;

  [[nodiscard]] const S& stage() const noexcept { return stage_; }
  [[nodiscard]] std::size_t sample_size() const { return stage_.sample_size(); }
  /// With the weights of a sample, which are the last elements of its target.
  [[nodiscard]] std::size_t target_size() const { return stage_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return detail::weight_size_of(stage_); }
  /// The extents of a sample, such as {28, 28}; a single one for flat samples and for those that a
  /// map has made.
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return detail::shape_of_size(stage_.sample_shape(), stage_.sample_size());
  }
  /// See PipelineDescription, SourceFingerprint and Source.
  void describe(PipelineDescription& description) const { stage_.describe(description); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return stage_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return stage_.sample_name(i); }
  /// Samples in one pass, or batches after batch; or infinite_cardinality, or unknown_cardinality.
  [[nodiscard]] std::int64_t cardinality() const { return stage_.cardinality(); }

  /// 0 when the source has no files.
  [[nodiscard]] std::int64_t num_files() const { return stage_.num_files(); }
  /// From here on this copy is one worker's: it has its files and its part of the batch size.
  void shard_files(int num_shards, int index)
    requires is_batched
  {
    stage_.shard_files(num_shards, index);
  }

  /// Starts a pass; see Dataset.
  void begin(Iteration iteration)
    requires is_batched
  {
    pass_ = Pass::of(iteration);
    has_begun_ = true;
    restart();
  }

  /// Goes to the next batch and returns its number of samples; 0 at the end.
  std::size_t next()
    requires is_batched
  {
    if (!has_begun_) throw Error("Pipeline: next() was called before begin(iteration)");
    if (!stage_.next(current_)) {
      current_.clear();
      return 0;
    }
    ++position_;
    return current_.size();
  }

  [[nodiscard]] std::span<const std::int64_t> sample_indices() const noexcept
    requires is_batched
  {
    return ElementSpan(current_).indices;
  }

  /// Writes the samples at these positions of the current batch to the rows 0, 1, ... of x and y,
  /// and zeros to the padding. y may be empty(). Throws DataError when the views have other sizes.
  template <class T>
  void read(std::span<const std::size_t> positions, TensorView<T> x, TensorView<T> y)
    requires is_batched
  {
    detail::check_read({.positions = positions,
                        .batch = current_.size(),
                        .sample_size = sample_size(),
                        .target_size = target_size(),
                        .x_samples = x.samples(),
                        .x_features = x.features(),
                        .y_samples = y.empty() ? x.samples() : y.samples(),
                        .y_features = y.features(),
                        .without_targets = y.empty()});
    selected_.clear();
    const ElementSpan current = current_;
    for (const std::size_t p : positions)
      selected_.push_back(current.indices[p], current.passes[p], current.parts_of(p));
    stage_.read(selected_, x, y);
    x.clear_padding();
    y.clear_padding();
  }

  /// Batches consumed since begin.
  [[nodiscard]] std::int64_t position() const noexcept
    requires is_batched
  {
    return position_;
  }

  /// Goes to where next() delivers the batch after `position` batches, or to the end if there are
  /// fewer. Reads no data, and leaves out whole repetitions; a shuffle buffer has to be run
  /// through.
  void seek(std::int64_t position)
    requires is_batched
  {
    detail::check_seek(has_begun_, position);
    if (position < position_) restart();
    current_.clear();
    position_ += stage_.advance(position - position_);
  }

 protected:
  explicit PipelinePass(S stage) : stage_(std::move(stage)) {}

  S stage_;

 private:
  void restart() {
    stage_.begin(pass_);
    current_.clear();
    position_ = 0;
  }

  Pass pass_{};
  bool has_begun_ = false;
  std::int64_t position_ = 0;
  ElementBatch current_;
  ElementBatch selected_;
};

// Each in the header of its name; lockstep/local.hpp has them all.
class AnyStage;
class Cache;
struct BucketOptions;
class ConcatenateDataset;
class Enumerate;
struct PaddedBatchOptions;
struct RejectionResampleOptions;
class Window;
template <class Upstream, class F>
class BucketBySequenceLength;
template <class Upstream, class F>
class Filter;
template <class Upstream>
class PaddedBatch;
template <class Upstream>
class ParallelRead;
template <class Upstream, class F>
class RejectionResample;
template <class Upstream>
class ShardDataset;
template <class Upstream>
class Unbatch;

/// For prefetch: let the library choose (TensorFlow's tf.data.AUTOTUNE).
inline constexpr std::int64_t autotune = -1;

struct DatasetOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
};

/// A pipeline as users write it, a value:
/// @code
/// auto train = lockstep::from_tensor_slices(images / 255.0f, labels)
///                  .shuffle(60'000)
///                  .repeat()
///                  .batch(128);
/// @endcode
/// Each transform returns a new pipeline and leaves this one as it was. Once batched, a pipeline is
/// a Dataset. Transforms after batch count in batches, as in tf.data.
///
/// Any number of threads may make transforms of one pipeline. What goes through it (begin, next,
/// read, seek) is for one thread: each takes a copy.
template <Stage S>
class Pipeline : public PipelinePass<S> {
  using PipelinePass<S>::stage_;

 public:
  using PipelinePass<S>::is_batched;

  explicit Pipeline(S stage, DatasetOptions options = {}, std::size_t prefetch_size = 0)
      : PipelinePass<S>(std::move(stage)), options_(options), prefetch_size_(prefetch_size) {}

  /// Any pipeline of samples converts to AnyPipeline.
  template <class Other>
    requires(std::is_same_v<S, AnyStage> && !std::is_same_v<Other, AnyStage> &&
             !Pipeline<Other>::is_batched)
  Pipeline(const Pipeline<Other>& other)
      : PipelinePass<S>(S(other.stage())),
        options_(other.options()),
        prefetch_size_(other.prefetch_size()) {}

  /// Calls f for every sample when it is read: `f(Sample<T>&)`, in place. Before or after batch; f
  /// sees one sample at a time.
  /// Use: `samples.map([](auto& sample) { sample.x[0] *= 2; })`.
  template <class F>
  [[nodiscard]] auto map(F f) const {
    return then(Map<S, F>(stage_, std::move(f)));
  }
  /// The same with changed sizes: `f(const Sample<const T>& in, Sample<T>& out)`.
  template <class F>
  [[nodiscard]] auto map(F f, SampleSizes sizes) const {
    return then(MapTo<S, F>(stage_, std::move(f), sizes));
  }

  /// Random order, anew in each epoch: each sample is drawn from a buffer of the next buffer_size
  /// ones. Without a seed, the run's is used.
  /// Use: `samples.shuffle(10'000)`.
  [[nodiscard]] auto shuffle(std::int64_t buffer_size,
                             std::optional<std::uint64_t> seed = std::nullopt,
                             bool reshuffle_each_iteration = true) const {
    return then(Shuffle<S>(stage_, buffer_size, seed, reshuffle_each_iteration));
  }

  /// The data `count` times; -1 repeats without end: fit then needs steps_per_epoch.
  /// Use: `samples.repeat()`.
  [[nodiscard]] auto repeat(std::int64_t count = -1) const {
    return then(RepeatDataset<S>(stage_, count));
  }

  /// The first `count` samples, or batches.
  /// Use: `samples.take(100)`.
  [[nodiscard]] auto take(std::int64_t count) const { return then(Take<S>(stage_, count)); }

  /// All but the first `count` samples, or batches.
  /// Use: `samples.skip(100)`.
  [[nodiscard]] auto skip(std::int64_t count) const { return then(Skip<S>(stage_, count)); }

  // With "lockstep/data/<name>.hpp", or lockstep/local.hpp:

  /// The samples for which f(const Sample<const T>&) is true. Before batch.
  /// Use: `samples.filter([](const auto& sample) { return sample.y[0] == 1; })`.
  template <class F>
  [[nodiscard]] auto filter(F f) const {
    return then(Filter<S, F>(stage_, std::move(f)));
  }

  /// This dataset's samples, then the other's.
  /// Use: `samples.concatenate(samples)`.
  template <class Other, class Made = ConcatenateDataset, class Any = AnyStage>
  [[nodiscard]] auto concatenate(const Pipeline<Other>& other) const {
    static_assert(
        !is_batched_with<Other> && !Pipeline<Other>::is_batched,
        "lockstep: concatenate works on single samples: write .concatenate(other).batch(n)");
    return then(Made({Any(stage_), Any(other.stage())}));
  }

  /// `size` consecutive samples become one, a Sequence: of samples of c numbers, number i of sample
  /// t is x[t * c + i]. Windows begin `shift` samples apart (0: `size`, without an overlap); a last
  /// one that would be shorter is left out. Targets, where there are any, are joined likewise.
  /// Use: `samples.window(17, 1)`. Keras: `Dataset.window`, `timeseries_dataset_from_array`.
  template <class Made = Window, class Any = AnyStage>
  [[nodiscard]] auto window(std::int64_t size, std::int64_t shift = 0,
                            std::int64_t stride = 1) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: window works on single samples: write .window(n) before .batch(n)");
    return then(Made(Any(stage_), size, shift, stride));
  }

  /// The number of the sample in the pass before its elements.
  /// Use: `samples.enumerate()`.
  template <class Made = Enumerate, class Any = AnyStage>
  [[nodiscard]] auto enumerate(std::int64_t start = 0) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: enumerate works on single samples: write it before .batch(n)");
    return then(Made(Any(stage_), start));
  }

  /// Samples are read once and kept in memory, or in a file.
  /// Use: `samples.cache("cache.bin")`.
  template <class Made = Cache, class Any = AnyStage>
  [[nodiscard]] auto cache(std::string path = {}) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: cache works on single samples: write .cache() before .batch(n)");
    return then(Made(Any(stage_), std::move(path)));
  }

  /// Batches of samples of like length.
  /// Use: `samples.bucket_by_sequence_length([](const auto& sample) { return
  /// static_cast<std::int64_t>(sample.x[0]); }, {.bucket_boundaries = {8}, .bucket_batch_sizes =
  /// {64, 32}})`.
  template <class F, class Options = BucketOptions>
  [[nodiscard]] auto bucket_by_sequence_length(F length, Options options) const {
    return then(BucketBySequenceLength<S, F>(stage_, std::move(length), std::move(options)));
  }

  /// Leaves samples out so that classes come as often as wanted.
  /// Use: `samples.rejection_resample([](const auto& sample) { return
  /// static_cast<std::size_t>(sample.y[0]); }, {.target_dist = {0.5, 0.5}})`.
  template <class F, class Options = RejectionResampleOptions>
  [[nodiscard]] auto rejection_resample(F class_of, Options options) const {
    return then(RejectionResample<S, F>(stage_, std::move(class_of), std::move(options)));
  }

  /// Batch, of samples padded to a size.
  /// Use: `samples.padded_batch(32)`.
  template <class Options = PaddedBatchOptions>
  [[nodiscard]] auto padded_batch(std::int64_t size, Options options = {}) const {
    static_assert(!is_batched_with<Options>,
                  "lockstep: this pipeline is already batched: call .padded_batch(n) once");
    return then(PaddedBatch<S>(stage_, size, options));
  }

  /// Every num_shards-th sample, or batch, from number `index` on.
  /// Use: `samples.shard(4, 0)`.
  [[nodiscard]] auto shard(std::int64_t num_shards, std::int64_t index) const {
    return then(ShardDataset<S>(stage_, num_shards, index));
  }

  /// `num_threads` threads run the stages before it: files, maps, augmentation. Samples, order and
  /// random numbers are those of one thread. autotune: one for each core, in each replica.
  /// Functions given to map are copied for each thread, which reads 16 samples of a batch or more.
  /// Throws ConfigurationError unless num_threads is autotune or in [1, 256].
  /// Use: `samples.map([](auto& sample) { sample.x[0] *= 2; }).parallel_read(2)`. TensorFlow:
  /// `num_parallel_calls`.
  template <class Number = std::int64_t>
  [[nodiscard]] auto parallel_read(Number num_threads = autotune) const {
    static_assert(
        !is_batched_with<Number>,
        "lockstep: parallel_read works on single samples: write .parallel_read(n).batch(n)");
    return then(ParallelRead<S>(stage_, num_threads));
  }

  /// The samples of batches.
  /// Use: `samples.batch(32).unbatch()`.
  [[nodiscard]] auto unbatch() const {
    static_assert(is_batched, "lockstep: unbatch takes batches apart: this pipeline has none");
    return then(Unbatch<S>(stage_));
  }

  /// Batches of `size` samples: that of the global batch, over all workers and replicas.
  /// Use: `samples.batch(32)`.
  [[nodiscard]] auto batch(std::int64_t size, bool drop_remainder = false) const {
    static_assert(!is_batched_with<S>,
                  "lockstep: this pipeline is already batched: call .batch(n) once");
    return then(Batch<S>(stage_, size, drop_remainder));
  }

  /// Each rank reads up to `buffer_size` batches ahead on a separate thread, while the step
  /// before them runs; autotune: 2. Worth a core where reading takes long (map with much work,
  /// files). Results stay the same. Functions given to map run on that thread. Throws
  /// ConfigurationError unless buffer_size is autotune or in [0, 1024].
  /// Use: `samples.batch(32).prefetch()`.
  [[nodiscard]] Pipeline prefetch(std::int64_t buffer_size = autotune) const {
    static_assert(is_batched,
                  "lockstep: prefetch counts batches: write .prefetch(n) after .batch(n)");
    if (buffer_size < autotune || buffer_size > 1024)
      throw ConfigurationError(concat(
          {"prefetch: buffer_size must be autotune (-1) or in [0, 1024], got ", buffer_size}));
    return Pipeline(stage_, options_,
                    buffer_size == autotune ? 2 : static_cast<std::size_t>(buffer_size));
  }

  /// A user's own transform: a template that derives from Transform<Upstream>, and the
  /// arguments that its constructor takes after the upstream stage.
  /// Use: `samples.batch(32).apply<MixUp>(0.2)`.
  template <template <class> class Own, class... Arguments>
  [[nodiscard]] auto apply(Arguments&&... arguments) const {
    return then(Own<S>(stage_, std::forward<Arguments>(arguments)...));
  }

  /// How the data are divided among workers.
  /// Use: `samples.batch(32).with_options({.auto_shard_policy = AutoShardPolicy::data})`.
  [[nodiscard]] Pipeline with_options(DatasetOptions options) const {
    return Pipeline(stage_, options, prefetch_size_);
  }

  [[nodiscard]] const DatasetOptions& options() const noexcept { return options_; }
  [[nodiscard]] AutoShardPolicy auto_shard_policy() const noexcept {
    return options_.auto_shard_policy;
  }
  [[nodiscard]] std::size_t prefetch_size() const noexcept { return prefetch_size_; }

 private:
  template <class>
  static constexpr bool is_batched_with = is_batched;

  template <class Next>
  [[nodiscard]] Pipeline<Next> then(Next next) const {
    return Pipeline<Next>(std::move(next), options_, prefetch_size_);
  }

  DatasetOptions options_;
  std::size_t prefetch_size_ = 0;
};

/// Whether D delivers batches. False only for a pipeline without .batch(n).
template <class D>
inline constexpr bool is_batched = true;
template <class S>
inline constexpr bool is_batched<Pipeline<S>> = Pipeline<S>::is_batched;

// What makes a pipeline of one of the library's own sources has the source's type as a template
// parameter: programs that do not call it then do not instantiate the pipeline.

/// A pipeline over a user's own source.
template <Source S>
[[nodiscard]] Pipeline<SourceStage<S>> from_source(S source) {
  return Pipeline<SourceStage<S>>(SourceStage<S>(std::move(source)));
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/pipeline.ipp"
#endif
