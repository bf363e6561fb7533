// One training step on one batch.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What Model has under this name. `batch` is a dataset of one batch, the same on all workers.
template <class T>
Logs train_on_batch(Trainer<T>& trainer, const AnyDataset& batch);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/training/train_on_batch.ipp"
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(Logs train_on_batch(Trainer<float>&, const AnyDataset&));
LOCKSTEP_INSTANCE(Logs train_on_batch(Trainer<double>&, const AnyDataset&));
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
