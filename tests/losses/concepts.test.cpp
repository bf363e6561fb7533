#include "lockstep/losses/concepts.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "lockstep/core/tensor_matrix.hpp"
#include "losses/loss_testing.hpp"

namespace ls = lockstep;
using lockstep_test::Tensor;

namespace {

// A user's own loss.
struct MeanAbsoluteError {
  static constexpr std::string_view name = "mean_absolute_error";
  template <class Out>
  static constexpr std::size_t target_size = Out::size;
  std::string description() const { return "mean_absolute_error"; }

  template <class T>
  void compute(ls::TensorView<const T> predictions, ls::TensorView<const T> targets,
               std::span<double> losses, ls::TensorView<T> gradient) const {
    for (std::size_t i = 0; i < predictions.samples(); ++i) {
      losses[i] = 0;
      for (std::size_t f = 0; f < predictions.features(); ++f)
        losses[i] += std::abs(static_cast<double>(predictions(i, f) - targets(i, f)));
      losses[i] /= static_cast<double>(predictions.features());
    }
    if (gradient.empty()) return;
    gradient.matrix() = (predictions.matrix() - targets.matrix()).cwiseSign() /
                        static_cast<T>(predictions.features());
    gradient.clear_padding();
  }
};
static_assert(ls::Loss<MeanAbsoluteError, ls::Shape<3>> &&
              ls::Loss<MeanAbsoluteError, ls::Shape<2, 2>, double>);

// Near misses, each of a model of the concept.
struct Model {
  static constexpr std::string_view name = "model";
  template <class Out>
  static constexpr std::size_t target_size = 1;
  std::string description() const;
  void compute(ls::TensorView<const float>, ls::TensorView<const float>, std::span<double>,
               ls::TensorView<float>) const;
};
static_assert(ls::Loss<Model, ls::Shape<3>>);
static_assert(!ls::Loss<Model, ls::Shape<3>, double>);
static_assert(!ls::Loss<Model, int>);

struct Nameless : Model {
  void name();
};
struct Undescribed : Model {
  void description() const;
};
struct TargetSizeIsText : Model {
  template <class Out>
  static constexpr std::string_view target_size = "1";
};
struct ComputeNotConst : Model {
  void compute(ls::TensorView<const float>, ls::TensorView<const float>, std::span<double>,
               ls::TensorView<float>);
};
struct FloatLosses : Model {
  void compute(ls::TensorView<const float>, ls::TensorView<const float>, std::span<float>,
               ls::TensorView<float>) const;
};
struct GradientIsReadOnly : Model {
  void compute(ls::TensorView<const float>, ls::TensorView<const float>, std::span<double>,
               ls::TensorView<const float>&) const;
};
struct NotCopyable : Model {
  NotCopyable(const NotCopyable&) = delete;
};
static_assert(!ls::Loss<Nameless, ls::Shape<3>>);
static_assert(!ls::Loss<Undescribed, ls::Shape<3>>);
static_assert(!ls::Loss<TargetSizeIsText, ls::Shape<3>>);
static_assert(!ls::Loss<ComputeNotConst, ls::Shape<3>>);
static_assert(!ls::Loss<FloatLosses, ls::Shape<3>>);
static_assert(!ls::Loss<GradientIsReadOnly, ls::Shape<3>>);
static_assert(!ls::Loss<NotCopyable, ls::Shape<3>>);

}  // namespace

TEST_CASE("a user's own loss passes what every loss must pass") {
  lockstep_test::check_loss(MeanAbsoluteError{}, Tensor<double>::random(5, 3, 1, -1, 1),
                            Tensor<double>::random(5, 3, 2, -1, 1));
}
