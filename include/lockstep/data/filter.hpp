// Only samples that fit.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/sample_reader.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI
