// The parts of a model: losses, metrics, optimizers.
#define LOCKSTEP_SOURCE 1

#include "lockstep/losses/crossentropies.ipp"
#include "lockstep/losses/ctc.ipp"
#include "lockstep/losses/regression.ipp"
#include "lockstep/metrics/accuracies.ipp"
#include "lockstep/metrics/metric_rows.ipp"
#include "lockstep/optimizers/adam.ipp"
#include "lockstep/optimizers/hyperparameters.ipp"
#include "lockstep/optimizers/keras_slots.ipp"
#include "lockstep/optimizers/rmsprop.ipp"
#include "lockstep/optimizers/schedules.ipp"
#include "lockstep/optimizers/sgd.ipp"
#include "lockstep/optimizers/update_rules.ipp"
