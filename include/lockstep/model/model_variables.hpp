// A model's variables: read and set, saved and loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/model/load_weights_options.hpp"
#include "lockstep/model/weights.hpp"
#include "lockstep/training/loops.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Files of a Model; in saving/model_files.hpp, so that a program without files needs no archives.
template <class Model>
struct ModelFiles;

}  // namespace detail

/// What a Model has for its variables, in memory and in files, and for the figures that belong to
/// them. A part of Model, whose members these are; T is its scalar type.
template <class Model, class T>
class ModelVariables {
 public:
  /// A copy of every variable in Keras's order: layer by layer, the trained ones before the others
  /// (moving statistics).
  [[nodiscard]] std::vector<Weight<T>> get_weights() const {
    return detail::copy_weights(detail::named_arrays_of(trainer(), 0));
  }

  /// Sets every variable, as get_weights gave them; the chief's go to all workers when the next fit
  /// begins. Throws ConfigurationError, having changed nothing, when a number or a shape differs,
  /// and Error while fit trains with parameter servers.
  void set_weights(const std::vector<Weight<T>>& weights) {
    detail::check_variables_are_here(trainer(), "set_weights");
    detail::check_weights(weights, detail::named_arrays_of(trainer(), 0));
    for (std::size_t i = 0; i < detail::replicas_of(trainer()); ++i)
      detail::put_weights(weights, detail::named_arrays_of(trainer(), i));
  }

  /// Saves the whole training state (variables, optimizer, learning rate, updates, seed) in
  /// lockstep's own format, for load and load_model. The chief alone writes. Throws Error naming
  /// the path; the file that was there then stays.
  void save(const std::string& path) const { files().save(model(), path); }

  /// Continues from a file that save (or ModelCheckpoint, CheckpointManager) wrote. The chief alone
  /// reads and sends it to the others, so that the folder need not be shared (with parameter
  /// servers, each process reads it). The file's learning
  /// rate is in force then, whatever compile was given; variables, loss, metrics and the
  /// optimizer's other options must be the same (where they are not, load_weights takes the
  /// variables alone). Throws, on every worker, DataError when the file cannot be read or is
  /// damaged, and ConfigurationError naming the difference when it belongs to another model;
  /// nothing is changed then.
  void load(const std::string& path) { files().load(model(), path); }

  /// Saves every variable as get_weights gives it: by the extension as .safetensors, .npz,
  /// .weights.h5, or else in lockstep's own format. The chief alone writes. Throws Error naming the
  /// path.
  ///
  /// A .weights.h5 file is what Keras 3 reads into the same model, a functional one where there are
  /// Residual or Parallel. It needs HDF5's library: link the CMake target lockstep::hdf5, or it is
  /// a ConfigurationError, as are names that end in .h5, .hdf5 and .keras otherwise. As Keras does,
  /// it puts the optimizer's state into the file (of LARS and of the program's own optimizers,
  /// which have no keras_slots, nothing). In a fit with parameter servers the variables alone are
  /// saved; with sharded_updates all workers must make this call, and in a fit too the state is in
  /// the file where the chief has it (see Training::state).
  void save_weights(const std::string& path) const { files().save_weights(model(), path); }

  /// Sets every variable, found by its name, from such a file or one that other programs wrote;
  /// float32 and float64 are converted into each other. The chief alone reads. Throws, on every
  /// worker, DataError when it cannot be read or is damaged, and ConfigurationError naming the
  /// first variable that is missing, unknown or of another shape; nothing is changed then.
  ///
  /// Of Keras 3's .weights.h5 and .keras files (with lockstep::hdf5), layers are found by their
  /// class and number, as Keras does it: "dense_1/0" for dense_1/kernel. The optimizer's state is
  /// taken over, too, if it is of an optimizer like this one: slots, updates made and, unless there
  /// is a schedule, the learning rate; the chief says so, or why not (a state that is damaged is a
  /// DataError all the same). A model that is in fit, and one of which a variable was not loaded,
  /// keeps its own.
  void load_weights(const std::string& path) { files().load_weights(model(), path); }
  /// The same, of a file of another model or another program: by the variables' names, with other
  /// shapes left out, renamed, or in PyTorch's layout; by name, or with .weights_only, without the
  /// state of Keras's optimizer. Says on the chief what was not loaded.
  /// Throws ConfigurationError, too, when nothing at all was found; nothing is changed then.
  LoadedWeights load_weights(const std::string& path, const LoadWeightsOptions& options) {
    return files().load_weights(model(), path, options);
  }

  /// CRC-32C over the bits of all trained parameters: equal runs have equal sums.
  [[nodiscard]] std::uint32_t parameters_crc32c() const {
    return detail::parameters_crc32c(trainer());
  }

  /// The seed in force: the chief's.
  [[nodiscard]] std::uint64_t seed() const noexcept { return detail::seed_of(trainer()); }
  [[nodiscard]] double learning_rate() const { return detail::learning_rate_of(trainer()); }
  /// Sets it for the fits that follow; the updates made so far still count. The chief's value goes
  /// to all workers when the next fit begins; in a callback, all workers must make the same call.
  /// Throws ConfigurationError unless it is finite and at least 0, and if the optimizer has a
  /// schedule.
  void set_learning_rate(double learning_rate) {
    detail::set_learning_rate(trainer(), learning_rate);
  }
  /// Optimizer updates made so far.
  [[nodiscard]] std::int64_t iterations() const noexcept {
    return detail::iterations_of(trainer());
  }

 private:
  friend Model;
  ModelVariables() = default;
  ~ModelVariables() = default;

  [[nodiscard]] Model& model() noexcept { return static_cast<Model&>(*this); }
  [[nodiscard]] const Model& model() const noexcept { return static_cast<const Model&>(*this); }
  [[nodiscard]] detail::Trainer<T>& trainer() const noexcept { return *model().trainer_; }

  static auto files() {
    static_assert(
        requires { sizeof(detail::ModelFiles<Model>); },
        "lockstep: to save or load a model, #include <lockstep/saving/model_files.hpp>");
    return detail::ModelFiles<Model>{};
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
