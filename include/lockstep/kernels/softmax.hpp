// Softmax over groups of features, its gradient, and softmax over many features row by row.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector_loops.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// y_c = exp(x_c) / sum over the group's features of exp(x), for kernels::dispatch. Computed from
/// x - max x, with the kernels' exponential, as the last bit of the standard library's may differ
/// between machines. y may be x. Any of the three results may be null: not wanted.
template <class T>
struct Softmax {
  GroupSize size;
  const T* x = nullptr;
  T* y = nullptr;
  T* largest = nullptr;  ///< of the group's x, [groups][stride]
  T* sum = nullptr;      ///< of exp(x - largest), [groups][stride]

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const GroupSize s = size;
    for_each_group<Isa, T>(s, [&](std::size_t first, std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
      const T* const from = x + first;
      T* const to = y == nullptr ? nullptr : y + first;
      P group_largest(from);
      for (std::size_t c = 1; c < s.features; ++c)
        group_largest = max(P(from + c * s.stride), group_largest);
      P group_sum(T(0));
      for (std::size_t c = 0; c < s.features; ++c) {
        const P value = exp(P(from + c * s.stride) - group_largest);
        group_sum += value;
        if (to != nullptr) value.store(to + c * s.stride);
      }
      if (largest != nullptr) group_largest.store(largest + i);
      if (sum != nullptr) group_sum.store(sum + i);
      if (to == nullptr) return;
      const P scale = P(T(1)) / group_sum;
      for (std::size_t c = 0; c < s.features; ++c)
        (P(static_cast<const T*>(to + c * s.stride)) * scale).store(to + c * s.stride);
    });
  }
};

/// dx_c = y_c (dy_c - sum over the group's features of dy * y), for kernels::dispatch. dx may be
/// dy.
template <class T>
struct SoftmaxGradient {
  GroupSize size;
  const T* dy = nullptr;
  const T* y = nullptr;
  T* dx = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const GroupSize s = size;
    for_each_group<Isa, T>(s, [&](std::size_t first, std::size_t) LOCKSTEP_KERNEL_LAMBDA {
      P sum = 0;
      for (std::size_t c = 0; c < s.features; ++c)
        sum = multiply_add(P(dy + first + c * s.stride), P(y + first + c * s.stride), sum);
      for (std::size_t c = 0; c < s.features; ++c)
        (P(y + first + c * s.stride) * (P(dy + first + c * s.stride) - sum))
            .store(dx + first + c * s.stride);
    });
  }
};

LOCKSTEP_KERNEL_INSTANCES(Softmax);
LOCKSTEP_KERNEL_INSTANCES(SoftmaxGradient);

/// The bits of Softmax for one group, for kernels::dispatch. Memory is gone through in its order,
/// feature by feature, while the sums of all samples stay in the first-level cache: twice as fast
/// for the tens of thousands of classes of a language model.
template <class T>
struct SoftmaxRows {
  std::size_t features = 1;
  std::size_t samples = 0;  ///< a multiple of 16
  std::size_t stride = 0;
  const T* x = nullptr;
  T* y = nullptr;        ///< may be x; null: not wanted
  T* largest = nullptr;  ///< [samples]
  T* sum = nullptr;      ///< of exp(x - largest), [samples]
  T* factors = nullptr;  ///< scratch, [samples]; null without y

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const SoftmaxRows s = *this;
    const auto at = [](const T* p) LOCKSTEP_KERNEL_LAMBDA { return P(p); };
    for (std::size_t i = 0; i < s.samples; i += P::size) {
      at(s.x + i).store(s.largest + i);
      P(T(0)).store(s.sum + i);
    }
    for (std::size_t c = 1; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size)
        max(at(s.x + c * s.stride + i), at(s.largest + i)).store(s.largest + i);
    for (std::size_t c = 0; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size) {
        const P value = exp(at(s.x + c * s.stride + i) - at(s.largest + i));
        (at(s.sum + i) + value).store(s.sum + i);
        if (s.y != nullptr) value.store(s.y + c * s.stride + i);
      }
    if (s.y == nullptr) return;
    for (std::size_t i = 0; i < s.samples; i += P::size)
      (P(T(1)) / at(s.sum + i)).store(s.factors + i);
    for (std::size_t c = 0; c < s.features; ++c)
      for (std::size_t i = 0; i < s.samples; i += P::size)
        (at(s.y + c * s.stride + i) * at(s.factors + i)).store(s.y + c * s.stride + i);
  }
};

LOCKSTEP_KERNEL_INSTANCES(SoftmaxRows);

}}}  // namespace lockstep::kernels
