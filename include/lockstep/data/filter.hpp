// Stages that look at samples to know the order: Filter, RejectionResample, BucketBySequenceLength.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Whether F takes samples: `f(const Sample<const T>&)` with T = float or double.
template <class F>
concept SampleFunction = std::invocable<F&, const Sample<const float>&> ||
                         std::invocable<F&, const Sample<const double>&>;

/// How many samples a stage reads at a time to look at them.
inline constexpr std::size_t looked_at = 64;

/// Reads samples and calls a function of the user's with each.
class SampleReader {
 public:
  /// `use(i, f(sample i))` for all of them.
  template <class Upstream, SampleFunction F, class Use>
  void for_each(Upstream& upstream, const ElementBatch& batch, std::uint64_t depth, F& f, Use use) {
    using T = std::conditional_t<std::invocable<F&, const Sample<const float>&>, float, double>;
    const std::size_t count = batch.size();
    const std::size_t x_size = upstream.sample_size(), y_size = upstream.target_size();
    const std::size_t w_size = weight_size_of(upstream);
    const TensorView<T> x = samples_.template view<T>(count, x_size);
    const TensorView<T> y = targets_.template view<T>(count, y_size);
    upstream.read(batch, x, y);
    T* const xs = rows_.template get<T>(count * (x_size + y_size));
    T* const ys = xs + count * x_size;
    copy_out<T>(x, 0, count, xs);
    copy_out<T>(y, 0, count, ys);
    const ElementSpan elements = batch;
    for (std::size_t i = 0; i < count; ++i) {
      const Sample<const T> sample{{xs + i * x_size, x_size},
                                   {ys + i * y_size, y_size - w_size},
                                   elements.indices[i],
                                   sample_key(elements, i, depth),
                                   {ys + (i + 1) * y_size - w_size, w_size}};
      use(i, f(sample));
    }
  }

 private:
  Scratch samples_;
  Scratch targets_;
  Scratch rows_;
};

}  // namespace detail

/// The samples for which `f(sample)` is true, sample being a `const Sample<const T>&`. The order of
/// a pass must be known on every rank, so each reads all samples to ask f, 64 at a time, and then
/// its own again; put filter before costly maps, or behind `cache()`. Seeking asks f, too. f must
/// give the same answer for the same sample on every rank. The cardinality becomes unknown.
template <class Upstream, class F>
class Filter : public Transform<Upstream> {
  static_assert(std::same_as<typename Upstream::item_type, Element>,
                "lockstep: filter works on single samples: write .filter(f) before .batch(n)");
  static_assert(detail::SampleFunction<F>,
                "lockstep: the function of filter(f) must be callable as f(const "
                "lockstep::Sample<const T>&), T being "
                "float or double, and say whether the sample stays");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = Element;

  Filter(Upstream upstream, F f) : Transform<Upstream>(std::move(upstream)), f_(std::move(f)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    passed_.clear();
  }

  bool next(Element& element) {
    while (passed_.empty())
      if (!look()) return false;
    element = std::move(passed_.front());
    passed_.pop_front();
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    for (; moved < n && (!passed_.empty() || look());) {
      if (passed_.empty()) continue;
      passed_.pop_front();
      ++moved;
    }
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    return upstream_.cardinality() == 0 ? 0 : unknown_cardinality;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    if constexpr (requires(const F& f) { f.description(); })
      description.add({"filter(", (*f_).description(), ")"});
    else
      description.add({"filter"});
  }

 private:
  /// Asks f about the next samples; false at the end.
  bool look() {
    candidates_.clear();
    Element element;
    while (candidates_.size() < detail::looked_at && upstream_.next(element))
      candidates_.push_back(element);
    if (candidates_.size() == 0) return false;
    const ElementSpan seen = candidates_;
    reader_.for_each(upstream_, candidates_, Filter::depth, *f_, [&](std::size_t i, bool stays) {
      if (stays) passed_.push_back(seen.element(i));
    });
    return true;
  }

  detail::Assignable<F> f_;
  std::deque<Element> passed_;
  ElementBatch candidates_;
  detail::SampleReader reader_;
};

struct RejectionResampleOptions {
  std::vector<double> target_dist = {};  ///< how often each class is wanted, in any unit
  std::vector<double> initial_dist =
      {};  ///< how often it comes; empty: estimated from the samples so far
  std::optional<std::uint64_t> seed = {};  ///< without one, the run's
};

namespace detail {

/// Which samples rejection_resample keeps, by their classes.
class ClassBalance {
 public:
  /// Throws ConfigurationError unless the distributions have one length, and finite numbers of at
  /// least 0, the sum above 0, the initial ones above 0 where the target is.
  explicit ClassBalance(RejectionResampleOptions options);

  void begin(Pass pass, std::uint64_t depth);
  [[nodiscard]] bool is_class(double found) const noexcept {
    return found >= 0 && found < static_cast<double>(counts_.size());
  }
  /// Throws DataError for a sample of another class; `name`: the sample's.
  [[noreturn]] void throw_no_class(const std::string& name, double found) const;
  /// Whether sample i, of that class, stays; counts it.
  [[nodiscard]] bool keeps(ElementSpan samples, std::size_t i, std::size_t its_class);
  void describe(PipelineDescription& description) const;

 private:
  [[nodiscard]] double chance(std::size_t wanted) const;

  RejectionResampleOptions options_;
  RandomKey key_{};
  std::vector<double> counts_;  ///< how often each class comes
};

}  // namespace detail

/// Leaves samples out at random so that classes come as often as wanted: a sample of class c stays
/// with the probability (t_c / p_c) / max_k (t_k / p_k), for target t and initial distribution p.
/// Without an initial one, p is the count of the samples before, each class beginning at 10 (as
/// tf.data's rejection_resample, whose pairs of class and sample are samples alone here).
///
/// `class_of(sample)` is a class number; it is called as the predicate of Filter is, under the same
/// rules. Whether a sample stays depends on seed, pass and sample. Throws DataError for a
/// class outside of target_dist.
template <class Upstream, class F>
class RejectionResample : public Transform<Upstream> {
  static_assert(std::same_as<typename Upstream::item_type, Element>,
                "lockstep: rejection_resample works on single samples: write it before .batch(n)");
  static_assert(
      detail::SampleFunction<F>,
      "lockstep: the function of rejection_resample(f, options) must be callable as f(const "
      "lockstep::Sample<const T>&), T being float or double, and return a class number");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = Element;

  /// Throws ConfigurationError unless the distributions have one length, and finite numbers of at
  /// least 0, the sum above 0, the initial ones above 0 where the target is.
  RejectionResample(Upstream upstream, F class_of, RejectionResampleOptions options)
      : Transform<Upstream>(std::move(upstream)),
        class_of_(std::move(class_of)),
        balance_(std::move(options)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    balance_.begin(pass, RejectionResample::depth);
    stay_.clear();
  }

  bool next(Element& element) {
    while (stay_.empty())
      if (!look()) return false;
    element = std::move(stay_.front());
    stay_.pop_front();
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    for (Element element; moved < n && next(element);) ++moved;
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t samples = upstream_.cardinality();
    return samples > 0 ? unknown_cardinality : samples;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    balance_.describe(description);
  }

 private:
  /// Decides about the next samples; false at the end.
  bool look() {
    candidates_.clear();
    Element element;
    while (candidates_.size() < detail::looked_at && upstream_.next(element))
      candidates_.push_back(element);
    if (candidates_.size() == 0) return false;
    const ElementSpan seen = candidates_;
    reader_.for_each(upstream_, candidates_, RejectionResample::depth, *class_of_,
                     [&](std::size_t i, auto found) {
                       const auto number = static_cast<double>(found);
                       if (!balance_.is_class(number))
                         balance_.throw_no_class(this->sample_name(seen.indices[i]), number);
                       if (balance_.keeps(seen, i, static_cast<std::size_t>(found)))
                         stay_.push_back(seen.element(i));
                     });
    return true;
  }

  detail::Assignable<F> class_of_;
  detail::ClassBalance balance_;
  std::deque<Element> stay_;
  ElementBatch candidates_;
  detail::SampleReader reader_;
};

struct BucketOptions {
  /// Ascending: bucket i has the lengths in [boundaries[i - 1], boundaries[i]), the last one those
  /// that are longer.
  std::vector<std::int64_t> bucket_boundaries = {};
  /// One more than boundaries: the global batch size of each bucket.
  std::vector<std::int64_t> bucket_batch_sizes = {};
  bool drop_remainder = false;  ///< leaves out batches that are not full at the end
};

namespace detail {

/// The buckets of bucket_by_sequence_length, as they fill.
class Buckets {
 public:
  /// Throws ConfigurationError unless the boundaries ascend, and there is a batch size of at least
  /// 1 for each bucket.
  explicit Buckets(BucketOptions options);

  void clear();
  /// The number of the bucket for samples of that length.
  [[nodiscard]] std::size_t of(std::int64_t length) const noexcept;
  /// Puts sample i into a bucket. True when that is then full: it becomes the batch.
  bool add(std::size_t bucket, ElementSpan samples, std::size_t i, ElementBatch& batch);
  /// At the end, makes a batch of the first bucket that is not empty; false when none is left.
  bool take_rest(ElementBatch& batch);
  /// Divides the batch sizes among the workers.
  void shard(int num_shards, int index);
  void describe(PipelineDescription& description) const;

 private:
  BucketOptions options_;
  std::vector<ElementBatch> filled_;
};

}  // namespace detail

/// Batches samples of like length: a bucket that is full is a batch, and at the end those that are
/// not full come in the order of their lengths, as in tf.data. `length(sample)` is a whole number;
/// it is called as the predicate of Filter is, under the same rules. Samples are not padded here:
/// all have the size of the model's input.
template <class Upstream, class F>
class BucketBySequenceLength : public Transform<Upstream> {
  static_assert(std::same_as<typename Upstream::item_type, Element>,
                "lockstep: bucket_by_sequence_length makes the batches itself: leave out .batch(n) "
                "before it");
  static_assert(
      detail::SampleFunction<F>,
      "lockstep: the function of bucket_by_sequence_length(f, options) must be callable as f(const "
      "lockstep::Sample<const T>&), T being float or double, and return a length");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Throws ConfigurationError unless the boundaries ascend, and there is a batch size of at least
  /// 1 for each bucket.
  BucketBySequenceLength(Upstream upstream, F length, BucketOptions options)
      : Transform<Upstream>(std::move(upstream)),
        length_(std::move(length)),
        buckets_(std::move(options)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    seen_.clear();
    used_ = 0;
    buckets_.clear();
  }

  bool next(ElementBatch& batch) {
    while (used_ < seen_.size() || look()) {
      const std::size_t i = used_++;
      if (buckets_.add(bucket_of_[i], seen_, i, batch)) return true;
    }
    return buckets_.take_rest(batch);
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    for (ElementBatch batch; moved < n && next(batch);) ++moved;
    return moved;
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t samples = upstream_.cardinality();
    return samples > 0 ? unknown_cardinality : samples;
  }

  /// As Batch: the batch sizes are divided among the workers.
  void shard_files(int num_shards, int index) {
    buckets_.shard(num_shards, index);
    upstream_.shard_files(num_shards, index);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    buckets_.describe(description);
  }

 private:
  /// Asks for the lengths of the next samples; false at the end.
  bool look() {
    seen_.clear();
    bucket_of_.clear();
    used_ = 0;
    Element element;
    while (seen_.size() < detail::looked_at && upstream_.next(element)) seen_.push_back(element);
    if (seen_.size() == 0) return false;
    reader_.for_each(upstream_, seen_, BucketBySequenceLength::depth, *length_,
                     [&](std::size_t, auto length) {
                       bucket_of_.push_back(buckets_.of(static_cast<std::int64_t>(length)));
                     });
    return true;
  }

  detail::Assignable<F> length_;
  detail::Buckets buckets_;
  ElementBatch seen_;
  std::vector<std::size_t> bucket_of_;  ///< of the samples in seen_
  std::size_t used_ = 0;
  detail::SampleReader reader_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/filter.ipp"
#endif
