// What load_weights takes, and what it tells.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How a file lays out its arrays, and what it calls them.
enum class WeightsLayout {
  keras,  ///< as save_weights: "dense/kernel" [inputs x units]
  /// A state_dict of PyTorch: "fc.weight" [units x inputs]. Dots stand for slashes; weight is a
  /// layer's kernel, embeddings, gamma or scale, bias its bias or beta, running_mean and
  /// running_var are its moving_mean and moving_variance. Kernels of Linear (also those of several
  /// heads, as query/kernel), Conv1d, Conv2d (also depthwise) and ConvTranspose2d are transposed;
  /// the gates of GRU are put into Keras's order, and the two biases of LSTM and RNN are added.
  /// Arrays of whole numbers (num_batches_tracked) are passed over.
  pytorch,
};

/// A name in the file, and the one that this model has in its place.
struct WeightsRename {
  std::string from;  ///< of an array ("fc.weight"), or what the names of a module begin with ("fc")
  std::string to;    ///< "dense/kernel", or "dense"
  /// PyTorch's Linear behind a Flatten: what was made flat, as [channels, height, width]. PyTorch
  /// flattens it in that order, and Keras by height, width and channel, so that rows must move.
  std::vector<std::size_t> flattened = {};
};

/// As Keras's load_weights has them, and more for files of other programs.
struct LoadWeightsOptions {
  /// What both have is loaded. Variables that the file lacks keep their values, and arrays that the
  /// model lacks are left out. (Otherwise either is an error.)
  bool by_name = false;
  /// Keep the value of a variable whose shape in the file differs, instead of throwing.
  bool skip_mismatch = false;
  /// Of several that fit a name, the longest `from` counts.
  std::vector<WeightsRename> rename = {};
  WeightsLayout layout = WeightsLayout::keras;
  /// Of a file of Keras: the variables, and not the state of the optimizer.
  bool weights_only = false;
};

/// What load_weights did with each variable of the model.
struct LoadedWeights {
  std::vector<std::string> loaded;      ///< has its value from the file
  std::vector<std::string> missing;     ///< is not in the file, and keeps its value
  std::vector<std::string> mismatched;  ///< has another shape there, and keeps its value
  std::vector<std::string>
      unused;  ///< arrays of the file (under its names) that are none of the model's
  bool optimizer_state = false;  ///< that of Keras's file was taken, too
};

}}  // namespace lockstep
