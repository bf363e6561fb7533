// The Source concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
///  5. `index(i)`: the global number of sample i in [0, size()), when it is another one than i.
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

}  // namespace lockstep::inline LOCKSTEP_ABI
