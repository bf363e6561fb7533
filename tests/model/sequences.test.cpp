// A model whose output is a sequence: loss, metrics and predictions go token by token, and leave
// masked tokens out.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/cross_attention.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::size_t positions = 5, features = 3, samples = 22;

/// Masks the tokens whose first number is below -0.5.
struct MaskLow {
  static constexpr std::string_view name = "mask_low";
  static constexpr bool takes_sequences = true;
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::size_t scratch(std::size_t count) {
    return count * In::positions;
  }
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    std::copy_n(pass.x.data(), pass.x.features() * pass.x.stride(), pass.y.data());
    for (std::size_t row = 0; row < pass.x.samples(); ++row)
      pass.scratch[row] = pass.x(row, 0) < T(-0.5) ? T(0) : T(1);
    pass.set_mask(pass.scratch.data());
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& pass) {
    std::copy_n(pass.dy.data(), pass.dy.features() * pass.dy.stride(), pass.dx.data());
  }
};

using Tagger = ls::Sequential<ls::Input<positions, features>, ls::ToSequence,
                              ls::Dense<8, ls::ReLU>, ls::Dense<3>>;
using MaskedTagger = ls::Sequential<ls::Input<positions, features>, ls::ToSequence, MaskLow,
                                    ls::Dense<8, ls::ReLU>, ls::Dense<3>>;

float input(std::size_t sample, std::size_t t, std::size_t f) {
  return static_cast<float>((sample * 31 + t * 17 + f * 7) % 23) / 11.0F - 1.0F;
}
float label(std::size_t sample, std::size_t t) {
  return static_cast<float>((sample * 3 + t * 5) % 3);
}
bool is_masked(std::size_t sample, std::size_t t) { return input(sample, t, 0) < -0.5F; }

/// Sequences of tokens with a class for each token.
class TaggedTokens {
 public:
  explicit TaggedTokens(std::size_t batch) : batch_(batch) {}
  std::size_t sample_size() const { return positions * features; }
  std::size_t target_size() const { return positions; }
  std::int64_t cardinality() const {
    return static_cast<std::int64_t>((samples + batch_ - 1) / batch_);
  }
  void begin(ls::Iteration) { seek(0); }
  std::size_t next() {
    indices_.clear();
    const std::size_t first = static_cast<std::size_t>(position_++) * batch_;
    for (std::size_t i = first; i < std::min(first + batch_, samples); ++i)
      indices_.push_back(static_cast<std::int64_t>(i));
    return indices_.size();
  }
  std::span<const std::int64_t> sample_indices() const { return indices_; }
  template <class T>
  void read(std::span<const std::size_t> rows, ls::TensorView<T> x, ls::TensorView<T> y) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto sample = static_cast<std::size_t>(indices_[rows[row]]);
      for (std::size_t t = 0; t < positions; ++t) {
        for (std::size_t f = 0; f < features; ++f)
          x(row, t * features + f) = static_cast<T>(input(sample, t, f));
        if (!y.empty()) y(row, t) = static_cast<T>(label(sample, t));
      }
    }
  }
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position) {
    position_ = position;
    indices_.clear();
  }

 private:
  std::size_t batch_;
  std::int64_t position_ = 0;
  std::vector<std::int64_t> indices_;
};
static_assert(ls::Dataset<TaggedTokens>);

constexpr ls::SparseCategoricalCrossentropy loss{.from_logits = true};

/// Loss and accuracy over the tokens that count, from predictions.
std::array<double, 2> expected_figures(const auto& predictions, bool masks) {
  double sum = 0, right = 0, rows = 0;
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t t = 0; t < positions; ++t) {
      if (masks && is_masked(s, t)) continue;
      double exponentials = 0;
      std::size_t best = 0;
      const auto logit = [&](std::size_t c) {
        return static_cast<double>(
            predictions(static_cast<Eigen::Index>(s), static_cast<Eigen::Index>(t * 3 + c)));
      };
      for (std::size_t c = 0; c < 3; ++c) {
        exponentials += std::exp(logit(c));
        if (logit(c) > logit(best)) best = c;
      }
      const auto wanted = static_cast<std::size_t>(label(s, t));
      sum += std::log(exponentials) - logit(wanted);
      right += best == wanted ? 1 : 0;
      rows += 1;
    }
  return {sum / rows, right / rows};
}

template <class Net>
void check_figures(bool masks) {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Net>(strategy, {.seed = 3}, loss, ls::SGD{.learning_rate = 0.1}, ls::Accuracy{});
  const auto history = model.fit(TaggedTokens(5), {.epochs = 8, .verbose = 0});
  CHECK(history["loss"].back() < history["loss"].front());
  const auto predictions = model.predict(TaggedTokens(7));
  REQUIRE(predictions.rows() == static_cast<Eigen::Index>(samples));
  REQUIRE(predictions.cols() == static_cast<Eigen::Index>(positions * 3));
  const auto expected = expected_figures(predictions, masks);
  const ls::Logs logs = model.evaluate(TaggedTokens(9), {.verbose = 0});
  CHECK(logs.at("loss") == doctest::Approx(expected[0]).epsilon(1e-6));
  CHECK(logs.at("accuracy") == doctest::Approx(expected[1]).epsilon(1e-12));
}

template <class Net, class S>
std::vector<float> parameters_after(S&& strategy) {
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, ls::SGD{.learning_rate = 0.1});
  model.fit(TaggedTokens(5), {.epochs = 3, .verbose = 0});
  std::vector<float> all;
  for (const auto& weights : model.get_weights())
    all.insert(all.end(), weights.values.begin(), weights.values.end());
  return all;
}

}  // namespace

TEST_CASE(
    "sequences: figures are means over all tokens, predictions are those of each sample in a row") {
  check_figures<Tagger>(false);
}

TEST_CASE("sequences: masked tokens count neither in the loss nor in the metrics") {
  check_figures<MaskedTagger>(true);
}

TEST_CASE(
    "sequences: masked tokens give no gradient, and the update divides by the tokens that count") {
  // Two replicas of 2 or 3 samples each, with different numbers of tokens that count.
  const std::vector<float> one = parameters_after<MaskedTagger>(ls::OneDeviceStrategy());
  const std::vector<float> two =
      parameters_after<MaskedTagger>(ls::MirroredStrategy({.replicas = 2}));
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(two[i] == doctest::Approx(one[i]).epsilon(1e-4));
}

TEST_CASE(
    "sequences: a penalty of outputs does not depend on how masked tokens are spread over replicas "
    "and batches") {
  using Net = ls::Sequential<ls::Input<positions, features>, ls::ToSequence, MaskLow,
                             ls::Dense<8, ls::ReLU>,
                             ls::ActivityRegularization<ls::Regularizer{.l2 = 0.5}>, ls::Dense<3>>;
  const std::vector<float> one = parameters_after<Net>(ls::OneDeviceStrategy());
  const std::vector<float> two = parameters_after<Net>(ls::MirroredStrategy({.replicas = 2}));
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(two[i] == doctest::Approx(one[i]).epsilon(1e-4));
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, ls::SGD{});
  CHECK(model.evaluate(TaggedTokens(3), {.verbose = 0}).at("loss") ==
        doctest::Approx(model.evaluate(TaggedTokens(22), {.verbose = 0}).at("loss")).epsilon(1e-6));
}

TEST_CASE("sequences: Attention and AdditiveAttention on two replicas, and from a file") {
  constexpr ls::AttentionOptions concat{.use_scale = true, .score_mode = ls::ScoreMode::concat};
  using Net = ls::Sequential<ls::Input<positions, features>, ls::ToSequence, MaskLow,
                             ls::Dense<8, ls::Tanh>, ls::Attention<ls::Identity, ls::Dense<8>>,
                             ls::Attention<ls::Dense<8>, ls::Identity, concat>,
                             ls::AdditiveAttention<ls::Dense<8>, ls::Identity>, ls::Dense<3>>;
  const std::vector<float> one = parameters_after<Net>(ls::OneDeviceStrategy());
  const std::vector<float> two = parameters_after<Net>(ls::MirroredStrategy({.replicas = 2}));
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(two[i] == doctest::Approx(one[i]).epsilon(1e-4));

  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 3}, loss, ls::SGD{.learning_rate = 0.1});
  model.fit(TaggedTokens(5), {.epochs = 1, .verbose = 0});
  std::vector<std::string> names;
  for (const auto& weight : model.get_weights())
    if (weight.shape.size() < 2 && !weight.name.ends_with("bias")) names.push_back(weight.name);
  CHECK(names == std::vector<std::string>{"attention_1/attention/scale",
                                          "attention_1/attention/concat_score_weight",
                                          "additive_attention/additive_attention/scale"});
  const double before = model.evaluate(TaggedTokens(5), {.verbose = 0}).at("loss");
  const TemporaryFolder folder;
  for (const char* name : {"a.npz", "a.safetensors"}) {
    model.save_weights(folder.path(name));
    auto other = ls::compile<Net>(strategy, {.seed = 4}, loss, ls::SGD{});
    other.load_weights(folder.path(name));
    CHECK(other.evaluate(TaggedTokens(5), {.verbose = 0}).at("loss") == before);
  }
  auto rounded = ls::compile<Net, ls::MixedBFloat16>(strategy, {.seed = 4}, loss, ls::SGD{});
  rounded.load_weights(folder.path("a.npz"));
  CHECK(rounded.evaluate(TaggedTokens(5), {.verbose = 0}).at("loss") ==
        doctest::Approx(before).epsilon(0.02));
}

TEST_CASE("sequences: a loss's ignored class does not count") {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Tagger>(strategy, {.seed = 3},
                          ls::SparseCategoricalCrossentropy{.from_logits = true, .ignore_class = 1},
                          ls::SGD{.learning_rate = 0.1}, ls::Accuracy{});
  const auto predictions = model.predict(TaggedTokens(7));
  double sum = 0, rows = 0;
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t t = 0; t < positions; ++t) {
      if (label(s, t) == 1) continue;
      double exponentials = 0;
      for (std::size_t c = 0; c < 3; ++c)
        exponentials += std::exp(static_cast<double>(
            predictions(static_cast<Eigen::Index>(s), static_cast<Eigen::Index>(t * 3 + c))));
      sum += std::log(exponentials) -
             static_cast<double>(predictions(
                 static_cast<Eigen::Index>(s),
                 static_cast<Eigen::Index>(t * 3) + static_cast<Eigen::Index>(label(s, t))));
      rows += 1;
    }
  CHECK(model.evaluate(TaggedTokens(9), {.verbose = 0}).at("loss") ==
        doctest::Approx(sum / rows).epsilon(1e-6));
}

TEST_CASE("sequences: a bad target names the sample") {
  ls::OneDeviceStrategy strategy;
  using Two = ls::Sequential<ls::Input<positions, features>, ls::ToSequence, ls::Dense<2>>;
  auto model = ls::compile<Two>(strategy, {.seed = 3}, loss, ls::SGD{});
  CHECK(contains(message_of<ls::DataError>([&] { model.fit(TaggedTokens(5), {.verbose = 0}); }),
                 "is 2; expected a whole number from 0 to 1"));
}
