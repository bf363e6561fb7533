// Class labels that are stored as numbers of the model's scalar type.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a loss throws: row number of the batch, and what is wrong with its target.
using BadTarget = BadSample;

namespace detail {

/// The target size of a loss that compares one class label with the scores of Out::size classes.
template <class Out>
consteval std::size_t one_label() {
  static_assert(Out::rank == 1,
                "lockstep: a loss over class labels needs a model whose output is flat, one score "
                "per class: end the model with Flatten and Dense<classes>");
  static_assert(Out::size > 1,
                "lockstep: a loss over class labels needs at least two classes: end the model with "
                "Dense<classes>, or with one output take BinaryCrossentropy");
  return 1;
}

[[noreturn]] inline void throw_bad_label(std::string_view loss, std::size_t row, double label,
                                         std::size_t classes) {
  throw BadTarget(
      concat({loss, ": the label of "}), row,
      concat(
          {" is ", label, "; expected a whole number from 0 to ", classes - 1, " (the model has ",
           classes, " outputs",
           label == static_cast<double>(classes) ? "; those of a Vocabulary begin at 1)" : ")"}));
}

/// Throws BadTarget unless every label is one of 0, 1, ..., classes - 1, or `ignored`.
template <class T>
void check_labels(std::string_view loss, TensorView<const T> labels, std::size_t classes,
                  std::optional<int> ignored = {}) {
  for (std::size_t row = 0; row < labels.samples(); ++row) {
    const T label = labels(row, 0);
    const bool in_range = label >= T(0) && label < static_cast<T>(classes);  // false for NaN
    if ((!in_range || label != std::floor(label)) &&
        !(ignored && label == static_cast<T>(*ignored)))
      throw_bad_label(loss, row, static_cast<double>(label), classes);
  }
}

}  // namespace detail

}}  // namespace lockstep
