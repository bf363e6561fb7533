// Several losses of one model, each of some of its outputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A loss of the outputs [Begin, End) of a row; made by output_loss, a part of Losses.
template <std::size_t Begin, std::size_t End, class L>
struct OutputLoss {
  static_assert(
      Begin < End,
      "lockstep: output_loss<begin, end> needs at least one output: end must be above begin");

  L loss{};
  double weight = 1;  ///< in the sum of all losses: Keras's loss_weights

  static constexpr std::size_t begin = Begin;
  static constexpr std::size_t end = End;
  static constexpr std::size_t target_size = L::template target_size<Shape<End - Begin>>;
};

/// `output_loss<10, 14>(MeanSquaredError{}, 0.5)`: half of the loss of the outputs 10 to 13.
/// Use: `output_loss<10, 14>(MeanSquaredError{}, 0.5)`. Keras: none.
template <std::size_t Begin, std::size_t End, class L>
[[nodiscard]] OutputLoss<Begin, End, L> output_loss(L loss, double weight = 1) {
  return {std::move(loss), weight};
}

/// The weighted sum of the losses of several parts of a flat output, as of a Keras model with
/// several outputs. A model has one output; Parallel with Concatenate makes one of several
/// branches. The targets of the parts stand one behind the other, in the same order.
/// @code
/// // a class of ten, and a box of four numbers: targets are a label and four numbers
/// Losses{output_loss<0, 10>(SparseCategoricalCrossentropy{.from_logits = true}),
///        output_loss<10, 14>(Huber{}, 0.5)}
/// @endcode
/// Outputs of which no part has a loss are not trained. Where a part ignores a row, the others
/// still count; the mean is over all rows. (In Keras, that part has its own mean.)
/// OutputMetric gives the figures of a part, its loss among them.
/// Use: `Losses{output_loss<0, 10>(SparseCategoricalCrossentropy{}), output_loss<10, 14>(Huber{},
/// 0.5)}`. Keras: `loss={...}, loss_weights={...}`.
template <class... Parts>
class Losses {
 public:
  static constexpr std::string_view name = "losses";
  static constexpr bool has_parts = true;  ///< each is for a part of the targets
  static constexpr std::string_view target_advice =
      "put the targets of all parts side by side, in their order";
  template <class Out>
  static constexpr std::size_t target_size = [] {
    static_assert(Out::rank == 1,
                  "lockstep: Losses needs a model whose output is flat: end it with Flatten");
    static_assert(((Parts::end <= Out::size) && ...),
                  "lockstep: a part of Losses ends behind the model's outputs");
    return (std::size_t{0} + ... + Parts::target_size);
  }();

  explicit Losses(Parts... parts) : parts_(std::move(parts)...) {
    static_assert(sizeof...(Parts) > 0, "lockstep: Losses needs at least one part");
    static_assert(
        are_in_order(),
        "lockstep: the parts of Losses are in the order of their outputs, without overlap");
  }

  /// "losses(0-10: mean_squared_error, 10-14: 0.5 * huber_loss(delta=1))"
  [[nodiscard]] std::string description() const {
    std::string text(name);
    each([&](const auto& part, std::size_t) {
      text += concat({text.size() == name.size() ? "(" : ", ", part.begin, "-", part.end, ": "});
      if (part.weight != 1) text += concat({part.weight, " * "});
      text += part.loss.description();
    });
    return text + ")";
  }

  [[nodiscard]] bool has_probabilities() const {
    bool any = false;
    each([&](const auto& part, std::size_t) { any = any || takes_probabilities(part); });
    return any;
  }

  /// Throws ConfigurationError.
  void validate() const {
    each([](const auto& part, std::size_t) {
      if (!(part.weight >= 0))
        throw ConfigurationError(concat({"losses: the weight of ", part.loss.name, " is ",
                                         part.weight, "; expected at least 0"}));
      if constexpr (requires { part.loss.validate(); }) part.loss.validate();
    });
  }

  /// See Loss; `gradient` must not overlap `predictions`.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const {
    thread_local std::vector<double> own_losses;
    thread_local std::vector<T> own_weights;
    const std::size_t rows = predictions.samples();
    if (own_losses.size() < rows) {
      own_losses.resize(rows);
      own_weights.resize(rows);
    }
    const std::span<double> own(own_losses.data(), rows);
    const std::span<T> counted(own_weights.data(), rows);
    std::fill(losses.begin(), losses.begin() + static_cast<std::ptrdiff_t>(rows), 0.0);
    std::fill_n(gradient.data(), gradient.features() * gradient.stride(), T(0));
    each([&](const auto& part, std::size_t first_target) {
      const auto y = targets.part(first_target, part.target_size);
      TensorView<T> slope;
      if (!gradient.empty()) slope = gradient.part(part.begin, part.end - part.begin);
      part.loss.compute(predictions.part(part.begin, part.end - part.begin), y, own, slope);
      std::fill(counted.begin(), counted.end(), static_cast<T>(part.weight));
      if constexpr (IgnoringLoss<decltype(part.loss), T>) (void)part.loss.ignore(y, counted);
      for (std::size_t row = 0; row < rows; ++row)
        if (counted[row] != T(0)) losses[row] += part.weight * own[row];
      for (std::size_t f = 0; f < slope.features(); ++f)
        for (std::size_t row = 0; row < rows; ++row)
          slope(row, f) = counted[row] == T(0) ? T(0) : counted[row] * slope(row, f);
    });
  }

 private:
  static consteval bool are_in_order() {
    std::size_t last = 0;
    bool in_order = true;
    ((in_order = in_order && Parts::begin >= last, last = Parts::end), ...);
    return in_order;
  }

  /// Calls f(part, number of its first target).
  template <class F>
  void each(const F& f) const {
    std::size_t first = 0;
    std::apply([&](const auto&... part) { ((f(part, first), first += part.target_size), ...); },
               parts_);
  }

  std::tuple<Parts...> parts_;
};

}}  // namespace lockstep
