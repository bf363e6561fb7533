// Data pipelines: a source and transforms, composed as a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/auto_shard_policy.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline_pass.hpp"
#include "lockstep/data/repeat.hpp"
#include "lockstep/data/shuffle.hpp"
#include "lockstep/data/skip.hpp"
#include "lockstep/data/source_stage.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/take.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
  template <class F>
  [[nodiscard]] auto map(F f) const {
    return then(Map<S, F>(stage_, std::move(f)));
  }
  /// The same with changed sizes: `f(const Sample<const T>& in, Sample<T>& out)`.
  template <class F>
  [[nodiscard]] auto map(F f, SampleSizes sizes) const {
    return then(MapTo<S, F>(stage_, std::move(f), sizes));
  }

  /// See Shuffle. Without a seed, the run's is used.
  [[nodiscard]] auto shuffle(std::int64_t buffer_size,
                             std::optional<std::uint64_t> seed = std::nullopt,
                             bool reshuffle_each_iteration = true) const {
    return then(Shuffle<S>(stage_, buffer_size, seed, reshuffle_each_iteration));
  }

  /// -1 repeats without end: fit then needs steps_per_epoch.
  [[nodiscard]] auto repeat(std::int64_t count = -1) const {
    return then(RepeatDataset<S>(stage_, count));
  }

  [[nodiscard]] auto take(std::int64_t count) const { return then(Take<S>(stage_, count)); }

  [[nodiscard]] auto skip(std::int64_t count) const { return then(Skip<S>(stage_, count)); }

  // With "lockstep/data/<name>.hpp", or lockstep/local.hpp:

  /// See Filter: the samples for which f(const Sample<const T>&) is true. Before batch.
  template <class F>
  [[nodiscard]] auto filter(F f) const {
    return then(Filter<S, F>(stage_, std::move(f)));
  }

  /// See ConcatenateDataset: this dataset's samples, then the other's.
  template <class Other, class Made = ConcatenateDataset, class Any = AnyStage>
  [[nodiscard]] auto concatenate(const Pipeline<Other>& other) const {
    static_assert(
        !is_batched_with<Other> && !Pipeline<Other>::is_batched,
        "lockstep: concatenate works on single samples: write .concatenate(other).batch(n)");
    return then(Made({Any(stage_), Any(other.stage())}));
  }

  /// See Window: `size` consecutive samples become one, a Sequence.
  template <class Made = Window, class Any = AnyStage>
  [[nodiscard]] auto window(std::int64_t size, std::int64_t shift = 0,
                            std::int64_t stride = 1) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: window works on single samples: write .window(n) before .batch(n)");
    return then(Made(Any(stage_), size, shift, stride));
  }

  /// See Enumerate: the number of the sample in the pass before its elements.
  template <class Made = Enumerate, class Any = AnyStage>
  [[nodiscard]] auto enumerate(std::int64_t start = 0) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: enumerate works on single samples: write it before .batch(n)");
    return then(Made(Any(stage_), start));
  }

  /// See Cache: samples are read once and kept in memory, or in a file.
  template <class Made = Cache, class Any = AnyStage>
  [[nodiscard]] auto cache(std::string path = {}) const {
    static_assert(!is_batched_with<Made>,
                  "lockstep: cache works on single samples: write .cache() before .batch(n)");
    return then(Made(Any(stage_), std::move(path)));
  }

  /// See BucketBySequenceLength: batches of samples of like length.
  template <class F, class Options = BucketOptions>
  [[nodiscard]] auto bucket_by_sequence_length(F length, Options options) const {
    return then(BucketBySequenceLength<S, F>(stage_, std::move(length), std::move(options)));
  }

  /// See RejectionResample: leaves samples out so that classes come as often as wanted.
  template <class F, class Options = RejectionResampleOptions>
  [[nodiscard]] auto rejection_resample(F class_of, Options options) const {
    return then(RejectionResample<S, F>(stage_, std::move(class_of), std::move(options)));
  }

  /// See PaddedBatch: batch, of samples padded to a size.
  template <class Options = PaddedBatchOptions>
  [[nodiscard]] auto padded_batch(std::int64_t size, Options options = {}) const {
    static_assert(!is_batched_with<Options>,
                  "lockstep: this pipeline is already batched: call .padded_batch(n) once");
    return then(PaddedBatch<S>(stage_, size, options));
  }

  /// See ShardDataset (shard_dataset.hpp): every num_shards-th item.
  [[nodiscard]] auto shard(std::int64_t num_shards, std::int64_t index) const {
    return then(ShardDataset<S>(stage_, num_shards, index));
  }

  /// See Unbatch: the samples of batches.
  [[nodiscard]] auto unbatch() const {
    static_assert(is_batched, "lockstep: unbatch takes batches apart: this pipeline has none");
    return then(Unbatch<S>(stage_));
  }

  /// `size` is that of the global batch, over all workers and replicas.
  [[nodiscard]] auto batch(std::int64_t size, bool drop_remainder = false) const {
    static_assert(!is_batched_with<S>,
                  "lockstep: this pipeline is already batched: call .batch(n) once");
    return then(Batch<S>(stage_, size, drop_remainder));
  }

  /// Each rank reads up to `buffer_size` batches ahead on a thread of its own, while the step
  /// before them runs; autotune: 2. Worth a core where reading takes long (map with much work,
  /// files). Results stay the same. Functions given to map run on that thread. Throws
  /// ConfigurationError unless buffer_size is autotune or in [0, 1024].
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
  template <template <class> class Own, class... Arguments>
  [[nodiscard]] auto apply(Arguments&&... arguments) const {
    return then(Own<S>(stage_, std::forward<Arguments>(arguments)...));
  }

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

}  // namespace lockstep::inline LOCKSTEP_ABI
