#pragma once

#include "lockstep/callbacks/lambda_callback.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE CallbackHooks::Presence LambdaCallback::hooks_in_use() const {
  return {.train_batch_begin = static_cast<bool>(on_train_batch_begin),
          .train_batch_end = static_cast<bool>(on_train_batch_end),
          .train_batch_complete = static_cast<bool>(on_train_batch_complete),
          .stop_in_batch = static_cast<bool>(on_train_batch_end),
          .epoch_end = static_cast<bool>(on_epoch_end),
          .train_end = static_cast<bool>(on_train_end),
          .complete_state = on_train_batch_complete || on_epoch_end || on_epoch_complete ||
                            on_preemption || on_train_end};
}

}  // namespace lockstep::inline LOCKSTEP_ABI
