// CTC, the loss of labels without times, and how its predictions are read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/losses/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The steps of CTC's output.
template <class Out>
consteval std::size_t ctc_steps() {
  static_assert(Out::rank == 2,
                "lockstep: CTC needs a model whose output is Shape<steps, classes>, scores of all "
                "classes for each step: end a model of sequences with Flatten and Reshape<steps, "
                "classes>");
  static_assert(Out::extents.back() > 1,
                "lockstep: CTC needs at least two classes: the first one is the blank");
  return Out::extents[0];
}

}  // namespace detail

/// Connectionist temporal classification: -log of the probability that the steps of an output
/// Shape<steps, classes> say the labels of the sample, in nats. A step says a class or nothing (the
/// blank, class 0); a class that stands for several steps is one label. The outputs are logits, of
/// which each step's softmax is taken. Targets, as many as steps: the labels, from 1 to classes -
/// 1, then zeros. (Keras's are as many as the longest has.) Sums over paths are of logarithms, in
/// double. Throws BadTarget for another target, and for more labels than the steps have room for
/// (labels that repeat need a blank between them); in Keras that loss is infinite. A. Graves
/// and others, "Connectionist Temporal Classification", ICML 2006.
/// Use: `CTC{}`. Shape<steps, classes>.
struct CTC {
  static constexpr std::string_view name = "ctc";
  static constexpr std::string_view target_advice =
      "give each sample as many labels as the model has steps, with zeros at the end";
  static constexpr bool has_steps = true;
  template <class Out>
  static constexpr std::size_t target_size = detail::ctc_steps<Out>();

  [[nodiscard]] std::string description() const { return std::string(name); }

  /// See Loss; `gradient` may be `predictions`, overwritten.
  template <class T>
  void compute(TensorView<const T> predictions, TensorView<const T> targets,
               std::span<double> losses, TensorView<T> gradient) const;
};

/// Options of ctc_decode; the defaults are Keras's.
struct CTCDecodeOptions {
  /// 0: the best class of each step (Keras's "greedy"); else "beam_search", that goes on with this
  /// many beginnings after each step.
  std::size_t beam_width = 0;
  std::size_t top_paths = 1;   ///< at most; of a beam search
  bool merge_repeated = true;  ///< of "greedy": a class that stands for several steps is one label
};

/// Labels, and how good they are: for "greedy" minus the sum of each step's best logit, for
/// "beam_search" the log of their probability.
struct CTCPath {
  std::vector<int> labels;
  double score = 0;
};

/// What the logits [steps x classes] of one sample, a row of `predict`, say: the best labels first.
/// Class 0 is the blank. For a sample that is shorter, give its first steps. Throws
/// ConfigurationError for options that make no sense, and DataError where `classes` does not
/// divide the logits.
/// Use: `ctc_decode(row, 28, {.beam_width = 100})`. Keras: `keras.ops.ctc_decode`.
[[nodiscard]] std::vector<CTCPath> ctc_decode(std::span<const float> logits, std::size_t classes,
                                              CTCDecodeOptions options = {});

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/losses/ctc.ipp"
#endif
