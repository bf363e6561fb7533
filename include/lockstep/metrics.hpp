// Metrics.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/metrics/auc.hpp"
#include "lockstep/metrics/confusion_matrix.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/metrics/precision_recall.hpp"
#include "lockstep/metrics/r2_score.hpp"
#include "lockstep/metrics/wrappers.hpp"
