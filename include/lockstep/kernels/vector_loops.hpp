// Loops over the vectors of an array.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Calls `f.template operator()<Vectors>(i)` for pieces of Vectors vectors from element i on, which
/// cover n elements (a multiple of a vector).
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_piece(std::size_t n, const F& f) {
  constexpr std::size_t size = lanes<T, Isa>;
  std::size_t i = 0;
  for (; i + 4 * size <= n; i += 4 * size) f.template operator()<4>(i);
  for (; i < n; i += size) f.template operator()<1>(i);
}

namespace detail {

/// What for_each_sample_piece hands on where all lanes hold samples: keeps them all.
struct AllLanes {
  template <class P>
  LOCKSTEP_KERNEL P operator()(const P& pack) const {
    return pack;
  }
};

/// And in the last vector: zero in lanes that hold none.
template <class P>
struct FirstLanes {
  typename P::Mask mask;
  LOCKSTEP_KERNEL explicit FirstLanes(std::size_t count) {
    typename P::value_type number[P::size];
    for (std::size_t i = 0; i < P::size; ++i) number[i] = static_cast<typename P::value_type>(i);
    mask = P(number) < P(static_cast<typename P::value_type>(count));
  }
  LOCKSTEP_KERNEL P operator()(const P& pack) const {
    return select(mask, pack, P(typename P::value_type(0)));
  }
};

}  // namespace detail

/// Calls `f.template operator()<Vectors>(i, keep)` for pieces that cover `samples` elements;
/// keep(pack) is the pack, with zero in place of what lies beyond them.
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_sample_piece(std::size_t samples, const F& f) {
  using P = Pack<T, Isa::vector_bytes>;
  const std::size_t whole = samples - samples % P::size;
  for_each_piece<Isa, T>(whole, [&]<std::size_t Vectors>(std::size_t i) LOCKSTEP_KERNEL_LAMBDA {
    f.template operator()<Vectors>(i, detail::AllLanes{});
  });
  if (whole < samples) f.template operator()<1>(whole, detail::FirstLanes<P>(samples - whole));
}

/// Features in groups, each feature with `stride` samples innermost, of which the first `samples`
/// (a multiple of a vector) are gone through.
struct GroupSize {
  std::size_t groups = 1;
  std::size_t features = 1;  ///< of a group
  std::size_t samples = 0;
  std::size_t stride = 0;  ///< a multiple of 16
};

/// Calls f(first, i) for each vector of samples of each group: `first` is its element of the
/// group's first feature, the next feature's is `stride` further; i is its element of an array that
/// has one value for each group and sample, [groups][stride].
template <class Isa, class T, class F>
LOCKSTEP_KERNEL void for_each_group(const GroupSize& s, const F& f) {
  for (std::size_t group = 0; group < s.groups; ++group)
    for (std::size_t sample = 0; sample < s.samples; sample += lanes<T, Isa>)
      f(group * s.features * s.stride + sample, group * s.stride + sample);
}

}}}  // namespace lockstep::kernels
