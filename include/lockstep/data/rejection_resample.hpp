// Classes as often as wanted.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/sample_reader.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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
/// `class_of(sample)` is a class number; it is asked as the function of Filter is, and the remarks
/// there hold. Whether a sample stays depends on seed, pass and sample. Throws DataError for a
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

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/rejection_resample.ipp"
#endif
