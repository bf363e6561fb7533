// A model in Keras's files: the places of its variables, and the state of its optimizer, taken from
// a training state and put back.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The places of the variables in the .weights.h5 file of the model that a user of Keras would
/// write: a Sequential inside a Sequential is one, and the layers in Residual, Parallel, Repeat and
/// TiedHead are those of a functional model, which Keras orders by their distance to the output.
/// Layers are numbered by class. Empty when there are no layers.
[[nodiscard]] KerasLayout keras_layout_of(std::span<const LayerInfo> layers);

/// The optimizer's state in `saved`, a state of `model`, as Keras's optimizer would have it;
/// without a name where Keras has none like it, or the model does not tell its layers. (As in
/// Keras, an open window of gradient_accumulation_steps has the sums of its steps' mean gradients.)
template <class T>
[[nodiscard]] KerasOptimizer keras_optimizer_of(const Trainer<T>& model,
                                                const TrainingState& saved);

/// How many variables Keras's optimizer has, with a learning rate; 0 where there is none like it.
template <class T>
[[nodiscard]] std::size_t keras_optimizer_variables(const Trainer<T>& model);

struct TakenOptimizer {
  bool is_taken = false;
  std::string text{};  ///< what is used now, or why it was not taken
};

/// The model goes on with this state, and keeps its variables and its place in the data. Changes
/// nothing unless it is of an optimizer like this one, for the same variables. As Keras does, takes
/// the file's learning rate, too (unless this model has a schedule), and not the optimizer's
/// options. The sums of an open window are left out, as the file does not tell how many samples
/// they are of. All workers call it.
template <class T>
TakenOptimizer restore_keras_optimizer(Trainer<T>& model, const KerasOptimizer& found);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/keras_files.ipp"
#endif
