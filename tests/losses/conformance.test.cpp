// Every loss of this room satisfies its concept. Here and not in the headers, where each program
// that includes them would pay for the answer again.
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/losses/ctc.hpp"
#include "lockstep/losses/hinges.hpp"
#include "lockstep/losses/regression.hpp"

namespace lockstep {

static_assert(Loss<BinaryCrossentropy, Shape<1>, float> &&
              Loss<BinaryCrossentropy, Shape<4>, double>);
static_assert(Loss<BinaryFocalCrossentropy, Shape<1>, float> &&
              Loss<BinaryFocalCrossentropy, Shape<4>, double>);
static_assert(Loss<CategoricalCrossentropy, Shape<10>, float>);
static_assert(Loss<CategoricalCrossentropy, Shape<10>, double>);
static_assert(Loss<CategoricalFocalCrossentropy, Shape<10>, float>);
static_assert(Loss<CategoricalFocalCrossentropy, Shape<3>, double>);
static_assert(Loss<CategoricalHinge, Shape<10>, float> && Loss<CategoricalHinge, Shape<3>, double>);
static_assert(Loss<CosineSimilarity, Shape<10>, float> &&
              Loss<CosineSimilarity, Shape<4, 2>, double>);
static_assert(Loss<CTC, Shape<6, 4>, float> && Loss<CTC, Shape<2, 2>, double>);
static_assert(Loss<Hinge, Shape<10>, float> && Loss<Hinge, Shape<4, 4, 2>, double>);
static_assert(Loss<Huber, Shape<10>, float> && Loss<Huber, Shape<4, 4, 2>, double>);
static_assert(Loss<KLDivergence, Shape<10>, float> && Loss<KLDivergence, Shape<3>, double>);
static_assert(Loss<LogCosh, Shape<10>, float> && Loss<LogCosh, Shape<4, 4, 2>, double>);
static_assert(Loss<MeanAbsoluteError, Shape<10>, float> &&
              Loss<MeanAbsoluteError, Shape<4, 4, 2>, double>);
static_assert(Loss<MeanAbsolutePercentageError, Shape<10>, float> &&
              Loss<MeanAbsolutePercentageError, Shape<4, 4, 2>, double>);
static_assert(Loss<MeanSquaredError, Shape<10>, float>);
static_assert(Loss<MeanSquaredError, Shape<4, 4, 2>, double>);
static_assert(Loss<MeanSquaredLogarithmicError, Shape<10>, float> &&
              Loss<MeanSquaredLogarithmicError, Shape<4, 4, 2>, double>);
static_assert(Loss<Poisson, Shape<10>, float> && Loss<Poisson, Shape<4, 4, 2>, double>);
static_assert(Loss<SparseCategoricalCrossentropy, Shape<10>, float>);
static_assert(Loss<SparseCategoricalCrossentropy, Shape<10>, double>);
static_assert(Loss<SquaredHinge, Shape<10>, float> && Loss<SquaredHinge, Shape<4, 4, 2>, double>);

}  // namespace lockstep
