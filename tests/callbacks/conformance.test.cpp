// Every callback of this room satisfies its concept. Here and not in the headers, where each
// program that includes them would pay for the answer again.
#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/csv_logger.hpp"
#include "lockstep/callbacks/early_stopping.hpp"
#include "lockstep/callbacks/json_logger.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/callbacks/swap_ema_weights.hpp"

namespace lockstep {

static_assert(Callback<BackupAndRestore>);
static_assert(Callback<CSVLogger>);
static_assert(Callback<EarlyStopping>);
static_assert(Callback<JSONLogger>);
static_assert(Callback<LambdaCallback>);
static_assert(Callback<LearningRateScheduler>);
static_assert(Callback<ModelCheckpoint>);
static_assert(Callback<ReduceLROnPlateau>);
static_assert(Callback<SwapEMAWeights>);
static_assert(Callback<TerminateOnNaN>);

}  // namespace lockstep
