#pragma once

#include <utility>

#include "lockstep/core/text.hpp"
#include "lockstep/data/enumerate.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void Enumerate::begin(Pass pass) {
  upstream_.begin(pass);
  position_ = 0;
}

LOCKSTEP_INLINE bool Enumerate::next(Element& element) {
  Element sample;
  if (!upstream_.next(sample)) return false;
  element.index = sample.index;
  element.pass = detail::rekeyed(sample.pass, "enumerate");
  element.parts.clear();
  element.parts.push_back(std::move(sample));
  element.parts.push_back({.index = start_ + position_++});
  return true;
}

LOCKSTEP_INLINE std::int64_t Enumerate::advance(std::int64_t n) {
  const std::int64_t moved = upstream_.advance(n);
  position_ += moved;
  return moved;
}

LOCKSTEP_INLINE void Enumerate::describe(PipelineDescription& description) const {
  upstream_.describe(description);
  description.add({"enumerate(", start_, ")"});
}

template <class T>
void Enumerate::read_numbered(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  detail::parts_numbered(samples, 0, selected_);
  upstream_.read(selected_, detail::features_of(x, 1, x.features() - 1), y);
  for (std::size_t i = 0; i < samples.indices.size(); ++i)
    x(i, 0) = static_cast<T>(samples.parts[i][1].index);
}

LOCKSTEP_INLINE void Enumerate::read(ElementSpan samples, TensorView<float> x,
                                     TensorView<float> y) {
  read_numbered(samples, x, y);
}
LOCKSTEP_INLINE void Enumerate::read(ElementSpan samples, TensorView<double> x,
                                     TensorView<double> y) {
  read_numbered(samples, x, y);
}

}}  // namespace lockstep
