#pragma once

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/window.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE Window::Window(AnyStage upstream, std::int64_t size, std::int64_t shift,
                               std::int64_t stride)
    : upstream_(std::move(upstream)),
      size_(size),
      shift_(shift == 0 ? size : shift),
      stride_(stride) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const auto check = [](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least || value > most)
      throw ConfigurationError(
          concat({"window: ", what, " must be in [", least, ", ", most, "], got ", value}));
  };
  check("size", size, 1);
  check("shift", shift, 0);
  check("stride", stride, 1);
  span_ = (size_ - 1) * stride_ + 1;
}

LOCKSTEP_INLINE void Window::begin(Pass pass) {
  upstream_.begin(pass);
  buffer_.clear();
}

LOCKSTEP_INLINE bool Window::next(Element& element) {
  while (static_cast<std::int64_t>(buffer_.size()) < span_) {
    Element sample;
    if (!upstream_.next(sample)) return false;
    buffer_.push_back(std::move(sample));
  }
  element.index = buffer_.front().index;
  element.pass = detail::rekeyed(buffer_.front().pass, "window");
  element.parts.clear();
  for (std::int64_t i = 0; i < span_; i += stride_)
    element.parts.push_back(buffer_[static_cast<std::size_t>(i)]);
  drop(shift_);
  return true;
}

LOCKSTEP_INLINE std::int64_t Window::drop(std::int64_t samples) {
  const std::int64_t buffered = std::min(samples, static_cast<std::int64_t>(buffer_.size()));
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(buffered));
  return buffered < samples ? buffered + upstream_.advance(samples - buffered) : buffered;
}

LOCKSTEP_INLINE std::int64_t Window::windows_in(std::int64_t samples) const noexcept {
  return samples < span_ ? 0 : (samples - span_) / shift_ + 1;
}

LOCKSTEP_INLINE std::int64_t Window::advance(std::int64_t n) {
  if (n < 1) return 0;
  // All but the last window go by unseen; whether the last is whole shows when it is taken.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  const std::int64_t skipped = n - 1 > most / shift_ ? most : (n - 1) * shift_;
  const std::int64_t dropped = drop(skipped);
  Element last;
  if (dropped == skipped && next(last)) return n;
  const std::int64_t moved = windows_in(dropped + static_cast<std::int64_t>(buffer_.size()));
  buffer_.clear();
  return std::min(moved, n);
}

LOCKSTEP_INLINE std::int64_t Window::cardinality() const {
  const std::int64_t samples = upstream_.cardinality();
  return samples < 0 ? samples : windows_in(samples);
}

LOCKSTEP_INLINE std::vector<std::size_t> Window::sample_shape() const {
  std::vector<std::size_t> shape = upstream_.sample_shape();
  shape.insert(shape.begin(), static_cast<std::size_t>(size_));
  return shape;
}

LOCKSTEP_INLINE void Window::describe(PipelineDescription& description) const {
  upstream_.describe(description);
  description.add({"window(", size_, ", ", shift_, ", ", stride_, ")"});
}

template <class T>
void Window::read_parts(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const std::size_t x_size = upstream_.sample_size(), y_size = upstream_.target_size(),
                    weights = y.empty() ? 0 : upstream_.weight_size(), size = y_size - weights;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
    detail::parts_numbered(samples, i, selected_);
    const TensorView<T> to = weights > 0 ? target_.view<T>(selected_.size(), y_size)
                                         : detail::features_of(y, i * y_size, y_size);
    upstream_.read(selected_, detail::features_of(x, i * x_size, x_size), to);
    if (weights == 0) continue;
    detail::copy_features(detail::features_of(to, 0, size), y, i * size);
    detail::copy_features(detail::features_of(to, size, weights), y,
                          static_cast<std::size_t>(size_) * size + i * weights);
  }
}

LOCKSTEP_INLINE void Window::read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
  read_parts(samples, x, y);
}
LOCKSTEP_INLINE void Window::read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
  read_parts(samples, x, y);
}

}}  // namespace lockstep
