// Every source, stage and dataset of this room satisfies its concept. Here and not in the headers,
// where each program that includes them would pay for the answer again.
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/enumerate.hpp"
#include "lockstep/data/generator.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/resized_batches.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/data/window.hpp"

namespace lockstep {

static_assert(Dataset<AnyDataset>);
static_assert(Stage<AnyStage>);
static_assert(Stage<Cache>);
static_assert(Stage<ConcatenateDataset>);
static_assert(Stage<Enumerate>);
static_assert(Source<detail::BlankSource>);
static_assert(Stage<Interleave>);
static_assert(Source<RaggedSlices<int>>);
static_assert(Source<RangeSource>);
static_assert(Dataset<detail::ResizedBatches>);
static_assert(Stage<SampleFromDatasets>);
static_assert(Source<TensorSlices<std::uint8_t>>);
static_assert(Stage<Window>);
static_assert(Stage<Zip>);

}  // namespace lockstep
