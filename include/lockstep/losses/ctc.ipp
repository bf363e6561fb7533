#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/ctc.hpp"
#include "lockstep/losses/labels.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

inline constexpr double log_of_zero = -std::numeric_limits<double>::infinity();

/// log(exp(a) + exp(b)).
inline double add_logarithms(double a, double b) {
  if (a == log_of_zero) return b;
  if (b == log_of_zero) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

/// Logits become the logs of their softmax.
inline void log_softmax(std::span<double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit - largest);
  for (double& logit : row) logit -= largest + std::log(sum);
}

/// The paths of one sample. A state is a place in blank, label, blank, ..., label, blank.
class CTCPaths {
 public:
  CTCPaths(std::size_t steps, std::size_t classes) : steps_(steps), classes_(classes) {}

  /// Throws BadTarget.
  template <class T>
  void read(TensorView<const T> logits, TensorView<const T> targets, std::size_t row) {
    labels_.clear();
    std::size_t least = 0;
    bool has_ended = false;
    for (std::size_t i = 0; i < steps_; ++i) {
      const T label = targets(row, i);
      if (!(label >= T(0) && label < static_cast<T>(classes_)) || label != std::floor(label))
        throw_bad_label(CTC::name, row, static_cast<double>(label), classes_);
      if (label != T(0) && has_ended)
        throw BadTarget("ctc: a label of ", row,
                        " stands behind a zero; zeros fill up what follows the last label");
      has_ended = label == T(0);
      if (has_ended) continue;
      const auto of_class = static_cast<std::size_t>(label);
      least += !labels_.empty() && labels_.back() == of_class ? 2 : 1;
      labels_.push_back(of_class);
    }
    if (least > steps_)
      throw BadTarget("ctc: the labels of ", row,
                      concat({" need ", least,
                              " steps, one for each and a blank between two that "
                              "are equal; the model has ",
                              steps_}));
    logs_.resize(steps_ * classes_);
    for (std::size_t t = 0; t < steps_; ++t) {
      for (std::size_t c = 0; c < classes_; ++c)
        log_of(t, c) = static_cast<double>(logits(row, t * classes_ + c));
      log_softmax(std::span(logs_).subspan(t * classes_, classes_));
    }
  }

  /// The log of the labels' probability.
  double forward() {
    const std::size_t states = 2 * labels_.size() + 1;
    before_.assign(steps_ * states, log_of_zero);
    for (std::size_t t = 0; t < steps_; ++t)
      for (std::size_t s = 0; s < states; ++s) {
        double ways = t == 0 && s < 2 ? 0.0 : log_of_zero;
        for (std::size_t back = 0; t > 0 && back < 3 && back <= s; ++back)
          if (back < 2 || may_skip_to(s))
            ways = add_logarithms(ways, before_[(t - 1) * states + s - back]);
        before_[t * states + s] = ways + log_of(t, class_of(s));
      }
    const double* const last = &before_[(steps_ - 1) * states];
    return states == 1 ? last[0] : add_logarithms(last[states - 1], last[states - 2]);
  }

  /// After forward, which returned `total`: the softmax, less the probability that the step says
  /// that class, given the labels.
  template <class T>
  void backward(double total, TensorView<T> gradient, std::size_t row) {
    const std::size_t states = 2 * labels_.size() + 1;
    after_.assign(states, log_of_zero);  // of all ways on from a state, without its step
    after_[states - 1] = 0;
    if (states > 1) after_[states - 2] = 0;
    for (std::size_t t = steps_; t-- > 0;) {
      said_.assign(classes_, 0.0);
      for (std::size_t s = 0; s < states; ++s)
        said_[class_of(s)] += std::exp(before_[t * states + s] + after_[s] - total);
      for (std::size_t c = 0; c < classes_; ++c)
        gradient(row, t * classes_ + c) = static_cast<T>(std::exp(log_of(t, c)) - said_[c]);
      for (std::size_t s = 0; s < states; ++s) {  // a way leads to later states alone
        double ways = log_of_zero;
        for (std::size_t on = 0; on < 3 && s + on < states; ++on)
          if (on < 2 || may_skip_to(s + on))
            ways = add_logarithms(ways, after_[s + on] + log_of(t, class_of(s + on)));
        after_[s] = ways;
      }
    }
  }

 private:
  [[nodiscard]] double& log_of(std::size_t t, std::size_t c) { return logs_[t * classes_ + c]; }
  [[nodiscard]] std::size_t class_of(std::size_t s) const {
    return s % 2 == 0 ? 0 : labels_[s / 2];
  }
  [[nodiscard]] bool may_skip_to(std::size_t s) const {
    return s % 2 == 1 && s > 2 && class_of(s) != class_of(s - 2);
  }

  std::size_t steps_, classes_;
  std::vector<std::size_t> labels_;
  std::vector<double> logs_;
  std::vector<double> before_;  ///< at each step, of all ways to a state, with that step
  std::vector<double> after_, said_;
};

}  // namespace detail

template <class T>
void CTC::compute(TensorView<const T> predictions, TensorView<const T> targets,
                  std::span<double> losses, TensorView<T> gradient) const {
  const std::size_t steps = targets.features();
  detail::CTCPaths paths(steps, predictions.features() / steps);
  for (std::size_t row = 0; row < predictions.samples(); ++row) {
    paths.read(predictions, targets, row);
    const double total = paths.forward();
    losses[row] = -total;
    if (!gradient.empty()) paths.backward(total, gradient, row);
  }
  if (!gradient.empty()) gradient.clear_padding();
}

LOCKSTEP_INSTANCE(detail::LossCompute<LOCKSTEP_REAL> CTC::compute);

namespace detail {

inline CTCPath ctc_greedy(std::span<const float> logits, std::size_t classes, bool merges) {
  CTCPath path;
  std::size_t last = 0;
  for (; !logits.empty(); logits = logits.subspan(classes)) {
    const auto best = std::ranges::max_element(logits.first(classes));
    const auto said = static_cast<std::size_t>(best - logits.begin());
    path.score -= static_cast<double>(*best);
    if (said != 0 && (said != last || !merges)) path.labels.push_back(static_cast<int>(said));
    last = said;
  }
  return path;
}

/// Hannun and others, arXiv 1408.2873: a beginning's probability in two parts, by whether its last
/// step is a blank.
inline std::vector<CTCPath> ctc_beam(std::span<const float> logits, std::size_t classes,
                                     const CTCDecodeOptions& options) {
  struct Ways {
    double blank = log_of_zero, label = log_of_zero;
    [[nodiscard]] double all() const { return add_logarithms(blank, label); }
  };
  using Beginning = std::pair<std::vector<int>, Ways>;
  const auto add = [](double& sum, double addend) { sum = add_logarithms(sum, addend); };
  std::vector<Beginning> beam{{{}, {.blank = 0}}};
  for (; !logits.empty(); logits = logits.subspan(classes)) {
    std::vector<double> logs(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(classes));
    log_softmax(logs);
    std::map<std::vector<int>, Ways> next;
    for (const auto& [labels, ways] : beam) {
      add(next[labels].blank, ways.all() + logs[0]);
      for (std::size_t c = 1; c < classes; ++c) {
        const bool repeats = !labels.empty() && labels.back() == static_cast<int>(c);
        if (repeats) add(next[labels].label, ways.label + logs[c]);
        std::vector<int> longer = labels;
        longer.push_back(static_cast<int>(c));
        add(next[longer].label, (repeats ? ways.blank : ways.all()) + logs[c]);
      }
    }
    beam.assign(next.begin(), next.end());
    std::ranges::stable_sort(beam, std::greater{},
                             [](const Beginning& one) { return one.second.all(); });
    if (beam.size() > options.beam_width) beam.resize(options.beam_width);
  }
  std::vector<CTCPath> paths;
  for (auto& [labels, ways] : beam)
    if (paths.size() < options.top_paths && ways.all() > log_of_zero)
      paths.push_back({std::move(labels), ways.all()});
  return paths;
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<CTCPath> ctc_decode(std::span<const float> logits, std::size_t classes,
                                                CTCDecodeOptions options) {
  const std::size_t most = options.beam_width == 0 ? 1 : options.beam_width;
  if (options.top_paths == 0 || options.top_paths > most)
    throw ConfigurationError(concat({"ctc_decode: top_paths is ", options.top_paths,
                                     "; expected 1 to ", most, ", the beam_width"}));
  if (classes < 2 || logits.size() % classes != 0)
    throw DataError(
        concat({"ctc_decode: got ", logits.size(), " logits; expected a multiple of the classes, ",
                classes, ", of which there are at least two"}));
  if (options.beam_width > 0) return detail::ctc_beam(logits, classes, options);
  return {detail::ctc_greedy(logits, classes, options.merge_repeated)};
}

}}  // namespace lockstep
