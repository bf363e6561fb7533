// Which rows of a small data set were seen, by the losses of steps that change nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace lockstep_test {

inline const TinyOptions frozen{.learning_rate = 0};  // losses then tell which samples were seen

/// 22 rows in 5 batches of 5, the last of 2.
inline RowDataset rows() { return {TinyData(22), 5}; }

/// The rows [first, last) of rows(), in one batch.
inline lockstep::AnyDataset some_rows(int first, int last) {
  const TinyData data(22);
  return lockstep::AnyDataset(
      lockstep::from_tensor_slices(data.x, data.y).skip(first).take(last - first).batch(22));
}

/// Mean loss over the rows [first, last).
inline double loss_of(TinyTrainer& trainer, int first, int last) {
  return trainer.evaluate(some_rows(first, last)).at("loss");
}

/// The loss of each step, from the running averages of batches of 5 that begin with each epoch.
inline std::vector<double> step_losses(const Recorder& recorder) {
  std::vector<double> losses;
  double sum = 0;
  double samples = 0;
  std::size_t next = 0;
  for (const std::string& call : recorder.calls) {
    if (call.starts_with("epoch_begin")) sum = samples = 0;
    if (!call.starts_with("batch_end")) continue;
    const double mean = recorder.batch_logs[next++].at("loss");
    losses.push_back((mean * (samples + 5) - sum) / 5);
    sum = mean * (samples + 5);
    samples += 5;
  }
  return losses;
}

}  // namespace lockstep_test
