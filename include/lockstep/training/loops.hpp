// What a Model calls: a Trainer and the loops over it, behind declarations, so that a program that
// links the library compiles nothing of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/callbacks/hooks.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/fit_part.hpp"
#include "lockstep/training/history.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
class Trainer;

/// See Trainer; `program` must outlive it.
template <class T>
[[nodiscard]] std::shared_ptr<Trainer<T>> make_trainer(const Program<T>& program,
                                                       std::shared_ptr<AnyStrategy> strategy,
                                                       std::optional<std::uint64_t> seed,
                                                       const Synchronization& synchronization,
                                                       MakeRemoteVariables<T> remote);

// What Model has under these names. One thread at a time calls them.
template <class T>
History fit(Trainer<T>& trainer, const AnyDataset& dataset, const FitOptions& options,
            CallbackHooks& callbacks);
template <class T>
Logs evaluate(Trainer<T>& trainer, const AnyDataset& dataset, const EvaluateOptions& options,
              CallbackHooks& callbacks);
/// The rows, one after the other.
template <class T>
std::vector<T> predict(Trainer<T>& trainer, const AnyDataset& dataset,
                       const PredictOptions& options, CallbackHooks& callbacks);
template <class T>
void adapt(Trainer<T>& trainer, const AnyDataset& dataset, const AdaptOptions& options);
/// `batch`: a dataset of one global batch, the same on all workers, each of which can reach all of
/// it.
template <class T>
Logs train_on_batch(Trainer<T>& trainer, const AnyDataset& batch);
template <class T>
std::uint32_t parameters_crc32c(const Trainer<T>& trainer);
template <class T>
std::uint64_t seed_of(const Trainer<T>& trainer) noexcept;
template <class T>
double learning_rate_of(const Trainer<T>& trainer);
template <class T>
void set_learning_rate(Trainer<T>& trainer, double learning_rate);
template <class T>
double loss_scale_of(const Trainer<T>& trainer) noexcept;
template <class T>
std::int64_t iterations_of(const Trainer<T>& trainer) noexcept;

// What the library's other rooms need of it.
template <class T>
AnyStrategy& strategy_of(const Trainer<T>& trainer) noexcept;
/// Called before variables or an optimizer's state are set: throws Error naming `call` while a fit
/// trains remote variables, which would not see the change.
template <class T>
void check_variables_are_here(const Trainer<T>& trainer, std::string_view call);
template <class T>
std::size_t replicas_of(const Trainer<T>& trainer) noexcept;
/// Every variable in one replica, layer by layer, the trained ones before the others.
template <class T>
std::vector<NamedArray<T>> named_arrays_of(const Trainer<T>& trainer, std::size_t replica);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/loops.ipp"
#endif
