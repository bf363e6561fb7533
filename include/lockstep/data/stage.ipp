#pragma once

#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE std::span<const Element> ElementSpan::parts_of(std::size_t i) const noexcept {
  return parts.empty() ? std::span<const Element>() : std::span<const Element>(parts[i]);
}

LOCKSTEP_INLINE Element ElementSpan::element(std::size_t i) const {
  const auto made_of = parts_of(i);
  return {indices[i], passes[i], {made_of.begin(), made_of.end()}};
}

LOCKSTEP_INLINE ElementBatch::ElementBatch() = default;
LOCKSTEP_INLINE ElementBatch::ElementBatch(const ElementBatch& other) = default;
LOCKSTEP_INLINE ElementBatch::ElementBatch(ElementBatch&& other) noexcept = default;
LOCKSTEP_INLINE ElementBatch& ElementBatch::operator=(const ElementBatch& other) = default;
LOCKSTEP_INLINE ElementBatch& ElementBatch::operator=(ElementBatch&& other) noexcept = default;
LOCKSTEP_INLINE ElementBatch::~ElementBatch() = default;

LOCKSTEP_INLINE ElementBatch::operator ElementSpan() const noexcept {
  return {indices, passes, parts};
}

LOCKSTEP_INLINE void ElementBatch::clear() noexcept {
  indices.clear();
  passes.clear();
  parts.clear();
}

LOCKSTEP_INLINE void ElementBatch::push_back(std::int64_t index, std::uint64_t pass,
                                             std::span<const Element> made_of) {
  indices.push_back(index);
  passes.push_back(pass);
  if (made_of.empty() && parts.empty()) return;
  parts.resize(indices.size());
  parts.back().assign(made_of.begin(), made_of.end());
}

LOCKSTEP_INLINE void ElementBatch::push_back(const Element& element) {
  push_back(element.index, element.pass, element.parts);
}

namespace detail {

LOCKSTEP_INLINE void parts_numbered(ElementSpan samples, std::size_t number, ElementBatch& out) {
  out.clear();
  for (std::size_t i = 0; i < samples.indices.size(); ++i) out.push_back(samples.parts[i][number]);
}

}  // namespace detail

}}  // namespace lockstep
