// Samples that a stage has to see before they are read.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/gather.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
