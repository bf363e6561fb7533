// What a parameter server does with the parameters that it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// One **shard**: a range of elements of the model's arena, with its slots, and all variables that
/// are not trained. ParameterServer makes one call at a time, but for those that give what never
/// changes: difference, type, begin, parameters (the span), status_size and state_bytes.
class ShardKeeper {
 public:
  ShardKeeper() = default;
  ShardKeeper(const ShardKeeper&) = delete;
  ShardKeeper& operator=(const ShardKeeper&) = delete;
  virtual ~ShardKeeper() = default;

  /// How a worker's program differs from the server's; nothing where it does not.
  [[nodiscard]] virtual std::optional<std::string> difference(std::string_view signature) const = 0;
  /// The same of what a worker's fit was given, beside that of the first worker.
  [[nodiscard]] virtual std::optional<std::string> fit_difference(std::string_view given,
                                                                  std::string_view first) const = 0;
  [[nodiscard]] virtual DataType type() const = 0;
  /// The first element of the range in the arena, and its parameters.
  [[nodiscard]] virtual std::size_t begin() const = 0;
  [[nodiscard]] virtual std::span<std::byte> parameters() = 0;

  /// Doubles in the status that a worker sends along with its gradients.
  [[nodiscard]] virtual std::size_t status_size() const = 0;
  /// Applies gradients: in a round the sum of those of `workers` workers, else those of one worker.
  /// `status` is theirs (in a round, the sum), and becomes that of the reply. A learning rate of
  /// NaN leaves the server's as it is.
  struct Gradients {
    std::span<const std::byte> values;
    std::span<double> status;
    int workers = 1;
    bool in_round = false;
    double learning_rate = 0;
    bool stop_on_non_finite = false;
  };
  virtual void apply(const Gradients& gradients) = 0;

  /// All that the shard is: for workers that begin, and for the chief's files.
  [[nodiscard]] virtual std::size_t state_bytes() const = 0;
  virtual void save(std::span<std::byte> state) const = 0;
  virtual void load(std::span<const std::byte> state) = 0;

  /// What a backup holds; uses the memory of `reused` where its size fits.
  [[nodiscard]] virtual TrainingState backup(TrainingState reused) const = 0;
  /// Throws ConfigurationError when it is of another program.
  virtual void restore(const TrainingState& backup) = 0;
  /// Bytes of all arrays of a backup.
  [[nodiscard]] virtual std::uint64_t backup_bytes() const = 0;

  /// The exit code for the signal that has told this process to stop; success while none has. Asked
  /// at any time.
  [[nodiscard]] virtual ExitCode told_to_stop() const noexcept { return ExitCode::success; }
};

}}}  // namespace lockstep::detail
