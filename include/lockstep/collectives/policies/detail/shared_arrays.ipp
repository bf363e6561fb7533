#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lockstep/collectives/policies/detail/shared_arrays.hpp"
#include "lockstep/collectives/policies/introduction.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE SharedArrays::SharedArrays(int rank, int size)
    : rank_(rank), own_(std::make_shared<OwnSegments>()), mapped_(static_cast<std::size_t>(size)) {}

LOCKSTEP_INLINE Buffer SharedArrays::allocate(std::size_t size) {
  if (size == 0) return {};
  using Owner = std::shared_ptr<OwnSegments>;
  auto owner = std::make_unique<Owner>(own_);
  own_->list.push_back(SharedSegment::create(size, random_cookie()));
  const auto release = [](std::byte* data, std::size_t, void* context) {
    const std::unique_ptr<Owner> segments(static_cast<Owner*>(context));
    std::erase_if((*segments)->list,
                  [&](const SharedSegment& segment) { return segment.data() == data; });
  };
  return Buffer(own_->list.back().data(), size, release, owner.release());
}

LOCKSTEP_INLINE void SharedArrays::find_segment(SharedSlot& mine, const void* data) const noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const SharedSegment& segment : own_->list)
    if (first >= segment.data() && first + mine.call.bytes <= segment.data() + segment.size()) {
      mine.segment = segment.name();
      mine.offset = static_cast<std::uint64_t>(first - segment.data());
    }
}

LOCKSTEP_INLINE std::byte* SharedArrays::mapped(int rank, const SharedSlot& slot) {
  constexpr std::size_t most_segments = 8;
  auto& segments = rank == rank_ ? own_->list : mapped_[static_cast<std::size_t>(rank)];
  const auto known = std::find_if(
      segments.begin(), segments.end(),
      [&](const SharedSegment& segment) { return segment.name().cookie == slot.segment.cookie; });
  if (known != segments.end()) {
    if (rank != rank_) std::rotate(known, known + 1, segments.end());
    return (rank != rank_ ? segments.back() : *known).data() + slot.offset;
  }
  if (segments.size() == most_segments) segments.erase(segments.begin());
  segments.push_back(SharedSegment::open(slot.segment));
  return segments.back().data() + slot.offset;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
