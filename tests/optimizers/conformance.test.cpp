// Every optimizer and schedule of this room satisfies its concept. Here and not in the headers,
// where each program that includes them would pay for the answer again.
#include "lockstep/optimizers/adafactor.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/ftrl.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/lion.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/rmsprop.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace lockstep {

static_assert(Optimizer<Adadelta, float> && Optimizer<Adadelta, double>);
static_assert(Optimizer<Adafactor, float> && Optimizer<Adafactor, double>);
static_assert(Optimizer<Adagrad, float> && Optimizer<Adagrad, double>);
static_assert(Optimizer<Adam, float> && Optimizer<Adam, double>);
static_assert(Optimizer<Adamax, float> && Optimizer<Adamax, double>);
static_assert(Optimizer<AdamW, float> && Optimizer<AdamW, double>);
static_assert(Optimizer<Ftrl, float> && Optimizer<Ftrl, double>);
static_assert(Optimizer<Lamb, float> && Optimizer<Lamb, double>);
static_assert(Optimizer<LARS, float> && Optimizer<LARS, double>);
static_assert(Optimizer<Lion, float> && Optimizer<Lion, double>);
static_assert(Optimizer<Muon, float> && Optimizer<Muon, double>);
static_assert(Optimizer<Nadam, float> && Optimizer<Nadam, double>);
static_assert(Optimizer<RMSprop, float> && Optimizer<RMSprop, double>);
static_assert(Optimizer<SGD, float> && Optimizer<SGD, double>);
static_assert(LearningRateSchedule<CosineDecay>);
static_assert(LearningRateSchedule<CosineDecayRestarts>);
static_assert(LearningRateSchedule<ExponentialDecay>);
static_assert(LearningRateSchedule<InverseTimeDecay>);
static_assert(LearningRateSchedule<PiecewiseConstantDecay>);
static_assert(LearningRateSchedule<PolynomialDecay>);
static_assert(LearningRateSchedule<WarmupStableDecay>);

}  // namespace lockstep
