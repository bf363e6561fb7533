// ActivityRegularization: a penalty on large outputs of the layer before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/penalty.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// y = x, for samples of any shape: `ActivityRegularization<L2{1e-4}>` after a layer. The penalty
/// of all values of a sample, in the mean over the samples, is added to the loss, in training and
/// in evaluate. As in Keras, that of the tokens of a sequence is summed, masked or not. A training
/// step with it sums two numbers over the ranks once more: all of them must make it.
/// Use: `ActivityRegularization<L2{0.01}>`: Shape<10> -> Shape<10>.
template <Regularizer Penalty>
struct ActivityRegularization {
  static_assert(Penalty.l1 >= 0 && Penalty.l2 >= 0,
                "lockstep: the factors of a penalty must be at least 0");
  static constexpr std::string_view name = "activity_regularization";
  static constexpr bool backward_in_place = true;
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    std::copy_n(pass.x.data(), In::size * pass.x.stride(), pass.y.data());
    if (pass.context.activity_penalty == nullptr) return;
    pass.context.activity_penalty->is_wanted = true;
    for (std::size_t f = 0; f < In::size; ++f)
      pass.context.activity_penalty->sum +=
          kernels::penalty(Penalty, pass.x.samples(), pass.x.feature(f));
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if (pass.dx.data() != pass.dy.data())
      std::copy_n(pass.dy.data(), In::size * pass.dy.stride(), pass.dx.data());
    const double scale =
        pass.context.activity_penalty == nullptr ? 1 : pass.context.activity_penalty->scale;
    for (std::size_t f = 0; f < In::size; ++f)
      kernels::add_penalty_gradient(Penalty, scale, pass.x.samples(), pass.x.feature(f),
                                    pass.dx.feature(f));
  }
};

}}  // namespace lockstep
