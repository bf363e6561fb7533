// Classes as often as wanted.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
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
        options_(std::move(options)) {
    check("target_dist", options_.target_dist);
    if (options_.initial_dist.empty()) return;
    check("initial_dist", options_.initial_dist);
    if (options_.initial_dist.size() != options_.target_dist.size())
      throw ConfigurationError(
          concat({"rejection_resample: initial_dist needs as many classes as target_dist, ",
                  options_.target_dist.size(), ", got ", options_.initial_dist.size()}));
    for (std::size_t c = 0; c < options_.target_dist.size(); ++c)
      if (options_.target_dist[c] > 0 && !(options_.initial_dist[c] > 0))
        throw ConfigurationError(concat({"rejection_resample: class ", c,
                                         " is wanted, and initial_dist says that it never comes"}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    key_ = options_.seed ? RandomKey(*options_.seed)
                         : RandomKey(pass.seed).fold_in(RejectionResample::depth);
    counts_ = options_.initial_dist;
    if (counts_.empty()) counts_.assign(options_.target_dist.size(), 10.0);
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
    description.add({"rejection_resample(", text_of(options_.target_dist), " of ",
                     text_of(options_.initial_dist),
                     options_.seed ? concat({", seed ", *options_.seed}) : std::string(), ")"});
  }

 private:
  static void check(const char* name, const std::vector<double>& distribution) {
    double sum = 0;
    for (const double share : distribution) {
      if (!std::isfinite(share) || share < 0)
        throw ConfigurationError(concat({"rejection_resample: ", name,
                                         " must have finite numbers of at least 0, got ", share}));
      sum += share;
    }
    if (!(sum > 0))
      throw ConfigurationError(
          concat({"rejection_resample: ", name, " must have a number above 0"}));
  }
  static std::string text_of(const std::vector<double>& distribution) {
    std::string text;
    for (const double share : distribution) text += concat({text.empty() ? "" : " ", share});
    return text.empty() ? "estimated" : text;
  }

  [[nodiscard]] double chance(std::size_t wanted) const {
    double largest = 0;
    for (std::size_t c = 0; c < counts_.size(); ++c)
      if (options_.target_dist[c] > 0)
        largest = std::max(largest, options_.target_dist[c] / counts_[c]);
    return counts_[wanted] > 0 ? options_.target_dist[wanted] / counts_[wanted] / largest : 0;
  }

  /// Decides about the next samples; false at the end.
  bool look() {
    candidates_.clear();
    Element element;
    while (candidates_.size() < detail::looked_at && upstream_.next(element))
      candidates_.push_back(element);
    if (candidates_.size() == 0) return false;
    const ElementSpan seen = candidates_;
    reader_.for_each(
        upstream_, candidates_, RejectionResample::depth, *class_of_,
        [&](std::size_t i, auto found) {
          if (!(found >= 0) || !(static_cast<double>(found) < static_cast<double>(counts_.size())))
            throw DataError(
                concat({"rejection_resample: ", this->sample_name(seen.indices[i]),
                        " has the class ", static_cast<double>(found), ", expected one of the ",
                        counts_.size(), " of target_dist, from 0"}));
          const auto number = static_cast<std::size_t>(found);
          const RandomKey key =
              key_.fold_in(seen.passes[i]).fold_in(static_cast<std::uint64_t>(seen.indices[i]));
          const bool stays = RandomStream(key).uniform() < chance(number);
          if (options_.initial_dist.empty()) counts_[number] += 1;
          const auto parts = seen.parts_of(i);
          if (stays)
            stay_.push_back({seen.indices[i], seen.passes[i], {parts.begin(), parts.end()}});
        });
    return true;
  }

  detail::Assignable<F> class_of_;
  RejectionResampleOptions options_;
  RandomKey key_{};
  std::vector<double> counts_;  ///< how often each class comes
  std::deque<Element> stay_;
  ElementBatch candidates_;
  detail::SampleReader reader_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
