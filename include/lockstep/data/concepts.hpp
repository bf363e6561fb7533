// The concepts Dataset and Source.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Cardinalities that are no number, with TensorFlow's values.
inline constexpr std::int64_t infinite_cardinality = -1;
inline constexpr std::int64_t unknown_cardinality = -2;

/// Names one pass over a dataset.
struct Iteration {
  std::uint64_t seed = 0;   ///< the run's seed (the chief's), for what has no own seed
  std::int64_t number = 0;  ///< 0 for the first pass; a shuffle that reshuffles depends on it
};

/// A dataset tells the sizes of a sample and of its targets, as numbers of elements, and how many
/// batches a pass has.
template <class D>
concept SizedDataset = requires(const D& dataset) {
  { dataset.sample_size() } -> std::convertible_to<std::size_t>;
  { dataset.target_size() } -> std::convertible_to<std::size_t>;
  { dataset.cardinality() } -> std::convertible_to<std::int64_t>;
};

/// A dataset goes through its batches, and can go to any position.
template <class D>
concept SeekableDataset =
    requires(D& dataset, const D& same, Iteration iteration, std::int64_t position) {
      dataset.begin(iteration);
      { dataset.next() } -> std::convertible_to<std::size_t>;
      { same.sample_indices() } -> std::convertible_to<std::span<const std::int64_t>>;
      { same.position() } -> std::convertible_to<std::int64_t>;
      dataset.seek(position);
    };

/// A dataset delivers samples of the current batch.
template <class D, class T>
concept ReadableDataset =
    requires(D& dataset, std::span<const std::size_t> positions, TensorView<T> x, TensorView<T> y) {
      dataset.read(positions, x, y);
    };

/// What fit, evaluate and predict take: a source of global batches. Every rank holds a copy and
/// runs it in step with the others; the training loop gives each rank its part of each global
/// batch, so a dataset needs to know nothing of workers.
///
/// For a dataset D:
///  1. D is copyable; copies are independent (they may share constant data) and may be used in
///     different threads.
///  2. `sample_size()` and `target_size()`: elements per sample, and per target (0 when there are
///     no targets).
///  3. `cardinality()`: batches in one pass, or infinite_cardinality, or unknown_cardinality.
///  4. `begin(iteration)` starts a pass. The same iteration gives the same batches.
///  5. `next()` goes to the next global batch and returns its number of samples; 0 at the end,
///     again and again.
///  6. `sample_indices()`: for each sample of the current batch, its number in the source (for
///     random keys).
///  7. `read(positions, x, y)` writes the samples at these positions of the current batch to the
///     rows 0, 1, ... of the views, for T = float and double. y is empty when the caller wants no
///     targets.
///  8. `position()`: batches consumed since begin; `seek(position)` goes to where next() delivers
///     the batch after that many, or to the end when there are fewer.
/// Optional:
///  9. `auto_shard_policy()`: an AutoShardPolicy; default automatic.
/// 10. `prefetch_size()`: how many batches each rank may read ahead on a separate thread; default
///     0.
/// 11. `num_files()` and `shard_files(num_shards, index)`: for AutoShardPolicy::file. The other
///     members are then called on a copy that has only one worker's files, before training too.
/// 12. `sample_shape()`: the extents of a sample, as a std::vector<std::size_t>; default flat,
///     which fits every model of that size.
/// 13. `describe(PipelineDescription&)` and `fingerprint()`, a SourceFingerprint: what the workers'
///     data must have in common, compared before training and without reading on. Default: nothing
///     but the cardinality.
/// 14. `sample_name(i)`: the sample of that number, for messages, called at any time from any
///     thread; default "sample 17".
/// 15. `weight_size()`: how many of a target's elements, its last ones, are the sample's weights in
///     loss and weighted metrics (Keras's sample_weight): 1, or one for each position of the
///     model's output where that is a Sequence; default 0, each sample counts once.
///
/// Rarely written by hand: a class with size(), sample_size(), target_size() and read() is a
/// source, and `from_source(MySource{}).shuffle(1000).batch(64)` a Dataset.
template <class D>
concept Dataset = std::copyable<D> && SizedDataset<D> && SeekableDataset<D> &&
                  ReadableDataset<D, float> && ReadableDataset<D, double>;

namespace detail {

/// The weight_size() of a dataset, a stage or a source.
template <class D>
[[nodiscard]] std::size_t weight_size_of([[maybe_unused]] const D& data) {
  if constexpr (requires { data.weight_size(); })
    return static_cast<std::size_t>(data.weight_size());
  else
    return 0;
}

}  // namespace detail

/// A source tells the number of its samples, and the sizes of a sample and of its targets.
template <class S>
concept SizedSource = requires(const S& source) {
  { source.size() } -> std::convertible_to<std::int64_t>;
  { source.sample_size() } -> std::convertible_to<std::size_t>;
  { source.target_size() } -> std::convertible_to<std::size_t>;
};

/// A source delivers any of its samples.
template <class S, class T>
concept ReadableSource = requires(S& source, std::span<const std::int64_t> indices, TensorView<T> x,
                                  TensorView<T> y) { source.read(indices, x, y); };

/// Where samples come from: an array, files, a database, a simulation. `from_source(source)` makes
/// it a pipeline.
///
/// For a source S:
///  1. S is copyable; copies may share constant data and may be used in different threads.
///  2. `size()`: number of samples.
///  3. `sample_size()` and `target_size()`: elements per sample, and per target (0 when there are
///     no targets).
///  4. `read(indices, x, y)`, for T = float and double: writes sample indices[i] to row i of the
///     views, for every i. Each index is in [0, size()), in any order, possibly repeated. y is
///     empty() when there are no targets or the caller wants none. The padding of the views need
///     not be written.
/// Optional:
///  5. `index(i)`: the global number of sample i in [0, size()), when it is not i.
///     read() is then given these numbers. Random augmentation and dropout are keyed by them.
///  6. `num_files()` and `shard_files(num_shards, index)`, together: the source has files, and
///     keeps the files i with i % num_shards == index. Neither needs a file to be there.
///  7. `sample_shape()`: the extents of a sample, as a std::vector<std::size_t>; compared with the
///     model's Input. Default: flat, which fits every Input of its size.
///  8. `describe(description)`: adds the source to a PipelineDescription, which the workers
///     compare. Default: "from_source".
///  9. `fingerprint()`: a SourceFingerprint, which the workers compare. Default: size() and a
///     checksum of up to 16 samples that a copy reads; define one if that is slow.
/// 10. `sample_name(i)`: the sample with this global number, for messages. Default: "sample 17".
///     Called at any time, also while another thread reads.
/// 11. `weight_size()`: how many of a target's elements, its last ones, are the sample's weights;
///     see Dataset. Default: 0.
///
/// Minimal model:
/// @code
/// struct Squares {  // x -> x * x, for x in 0 .. 999
///   std::int64_t size() const { return 1000; }
///   std::size_t sample_size() const { return 1; }
///   std::size_t target_size() const { return 1; }
///   template <class T>
///   void read(std::span<const std::int64_t> indices, lockstep::TensorView<T> x,
///             lockstep::TensorView<T> y) const {
///     for (std::size_t i = 0; i < indices.size(); ++i) {
///       x(i, 0) = static_cast<T>(indices[i]);
///       if (!y.empty()) y(i, 0) = x(i, 0) * x(i, 0);
///     }
///   }
/// };
/// @endcode
template <class S>
concept Source =
    std::copyable<S> && SizedSource<S> && ReadableSource<S, float> && ReadableSource<S, double>;

}}  // namespace lockstep
