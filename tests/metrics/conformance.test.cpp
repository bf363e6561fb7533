// Every metric of this room satisfies its concept. Here and not in the headers, where each program
// that includes them would pay for the answer again.
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/auc.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/metrics/precision_recall.hpp"
#include "lockstep/metrics/r2_score.hpp"
#include "lockstep/metrics/wrappers.hpp"

namespace lockstep {

static_assert(Metric<Accuracy, float> && Metric<Accuracy, double>);
static_assert(Metric<AUC, float> && Metric<AUC, double>);
static_assert(Metric<BinaryAccuracy, float> && Metric<BinaryAccuracy, double>);
static_assert(Metric<CategoricalAccuracy, float> && Metric<CategoricalAccuracy, double>);
static_assert(Metric<ConfusionMatrix, float> && Metric<ConfusionMatrix, double>);
static_assert(Metric<F1Score, float> && Metric<F1Score, double>);
static_assert(Metric<FBetaScore, float> && Metric<FBetaScore, double>);
static_assert(Metric<MeanIoU, float> && Metric<MeanIoU, double>);
static_assert(Metric<metrics::CosineSimilarity, float> &&
              Metric<metrics::MeanSquaredError, double>);
static_assert(Metric<OutputMetric<Accuracy>, float> && Metric<OutputMetric<Accuracy>, double>);
static_assert(Metric<Perplexity, float> && Metric<Perplexity, double>);
static_assert(Metric<Precision, float> && Metric<Precision, double>);
static_assert(Metric<R2Score, float> && Metric<R2Score, double>);
static_assert(Metric<Recall, float> && Metric<Recall, double>);
static_assert(Metric<RootMeanSquaredError, float> && Metric<RootMeanSquaredError, double>);
static_assert(Metric<SparseCategoricalAccuracy, float> &&
              Metric<SparseCategoricalAccuracy, double>);
static_assert(Metric<SparseTopKCategoricalAccuracy, float> &&
              Metric<SparseTopKCategoricalAccuracy, double>);
static_assert(Metric<TopKCategoricalAccuracy, float> && Metric<TopKCategoricalAccuracy, double>);
static_assert(Metric<Weighted<Accuracy>, float> && Metric<Weighted<Accuracy>, double>);

}  // namespace lockstep
