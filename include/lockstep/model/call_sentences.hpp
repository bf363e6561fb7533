// What the compiler says of a call of fit, evaluate, predict or adapt that matches no overload.
#pragma once

#include <initializer_list>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class>
inline constexpr bool no_call = false;

// Each sentence lists the fields of its options in their order; a test compares the two.

template <class Data>
struct FitSentence {
  static_assert(
      no_call<Data>,
      "lockstep: no such call of fit: it is fit(dataset, {options}, callbacks...) or fit(x, y, "
      "{options}, callbacks...), and an option is misspelt or of the wrong type. FitOptions has, "
      "in this order: batch_size, epochs, verbose, validation_split, validation_data, shuffle, "
      "class_weight, sample_weight, initial_epoch, steps_per_epoch, validation_steps, "
      "validation_batch_size, validation_freq, stop_on_non_finite, verify_replicas, profile");
  static constexpr bool said = true;
};

template <class Data>
struct EvaluateSentence {
  static_assert(no_call<Data>,
                "lockstep: no such call of evaluate: it is evaluate(dataset, {options}, "
                "callbacks...) or evaluate(x, y, {options}, callbacks...), and an option is "
                "misspelt or of the wrong type. EvaluateOptions has, in this order: batch_size, "
                "verbose, sample_weight, steps");
  static constexpr bool said = true;
};

template <class Data>
struct PredictSentence {
  static_assert(no_call<Data>,
                "lockstep: no such call of predict: it is predict(x, {options}, callbacks...), and "
                "an option is misspelt "
                "or of the wrong type. PredictOptions has, in this order: batch_size, steps");
  static constexpr bool said = true;
};

template <class Data>
struct AdaptSentence {
  static_assert(
      no_call<Data>,
      "lockstep: no such call of adapt: it is adapt(dataset, {options}) or adapt(x, {options}), "
      "and an option "
      "is misspelt or of the wrong type. AdaptOptions has, in this order: batch_size, steps");
  static constexpr bool said = true;
};

/// Of a call whose first argument is an array in braces.
template <class Number>
struct BracesSentence {
  static constexpr bool said = true;
  static_assert(no_call<Number>,
                "lockstep: an array in braces has no type: write ls::Tensor<float>({1, 2, 3, 4}, "
                "{2, 2}), two samples of two numbers, or a std::vector<float>, a sample for each "
                "number");
};

/// The first parameter of `f(OtherCall<Sentence>, ...)`, an overload that takes every call, and is
/// chosen where no other one fits: a conversion and an ellipsis are the worst match. The compiler
/// then converts the first argument first, which needs the default argument below, so that the
/// sentence is its first error. (Braces with an unknown designator match an ellipsis, nothing
/// else.)
template <template <class> class Sentence>
struct OtherCall {
  template <class Data>
  OtherCall(const Data&, bool = Sentence<Data>::said);
  template <class Number>
  OtherCall(std::initializer_list<Number>, bool = BracesSentence<Number>::said);
  template <class Number>
  OtherCall(std::initializer_list<std::initializer_list<Number>>,
            bool = BracesSentence<Number>::said);
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
