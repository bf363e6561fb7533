// TerminateOnNaN: ends training when the loss is no number.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Ends training on all workers after the batch whose loss is NaN or infinite. The update of that
/// batch has been made; to keep the parameters from before it, give fit stop_on_non_finite.
/// Use: `TerminateOnNaN{}`.
struct TerminateOnNaN {
  bool raise_error = false;  ///< fit throws an Error instead of returning after the epoch's hooks

  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs) const {
    const double* const loss = logs.find("loss");
    if (loss == nullptr || std::isfinite(*loss)) return;
    const double shown = std::isnan(*loss) ? std::abs(*loss) : *loss;  // a NaN's sign means nothing
    const std::string what =
        concat({"TerminateOnNaN: the loss of batch ", batch + 1, " is ", shown, ": training ends"});
    if (raise_error) throw Error(what);
    if (training.is_chief()) log_line(what);
    training.stop_training();
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
