// A compiled TinyNet behind a class that is no template, so that a model is compiled once for many
// test files.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/training/fit_options.hpp"
#include "lockstep/training/history.hpp"
#include "support/model_testing.hpp"

namespace lockstep_test {

struct TinyOptions {
  int replicas = 1;
  std::uint64_t seed = 7;
  lockstep::LearningRate learning_rate = 0.1;
  double momentum = 0;
  double global_clipnorm = 0;
};

/// TinyNet with SparseCategoricalCrossentropy, SGD and Accuracy, on a MirroredStrategy. Silent.
/// Callbacks: a Recorder (one of its own when none is given), and after it a BackupAndRestore when
/// there is one.
class TinyTrainer {
 public:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit TinyTrainer(TinyOptions options = {});
  ~TinyTrainer();

  lockstep::History fit(const lockstep::AnyDataset& data, lockstep::FitOptions options = {},
                        Recorder* recorder = nullptr);
  lockstep::History fit(const lockstep::AnyDataset& data, lockstep::FitOptions options,
                        Recorder& recorder, lockstep::BackupAndRestore& backup);
  /// On plain arrays.
  lockstep::History fit(const TinyData& data, lockstep::FitOptions options = {},
                        Recorder* recorder = nullptr);
  /// With an empty list of callbacks: replicas then need not wait for them.
  lockstep::History fit_alone(const lockstep::AnyDataset& data, lockstep::FitOptions options = {});

  lockstep::Logs evaluate(const lockstep::AnyDataset& data, lockstep::EvaluateOptions options = {},
                          Recorder* recorder = nullptr);
  lockstep::Logs evaluate(const TinyData& data, lockstep::EvaluateOptions options = {});
  Matrix predict(const lockstep::AnyDataset& data, lockstep::PredictOptions options = {},
                 Recorder* recorder = nullptr);
  Matrix predict(const TinyData& data, lockstep::PredictOptions options = {});

  /// The first `steps` batches in a loop outside of fit.
  void loop(const lockstep::AnyDataset& data, std::int64_t steps);

  lockstep::Logs train_on_batch(const Matrix& x, const std::vector<int>& y);
  lockstep::Logs test_on_batch(const Matrix& x, const std::vector<int>& y);
  Matrix predict_on_batch(const Matrix& x);

  [[nodiscard]] std::vector<lockstep::Weight<float>> get_weights() const;
  void set_weights(const std::vector<lockstep::Weight<float>>& weights);
  void set_weights(const std::vector<lockstep::Weight<float>>& weights,
                   const lockstep::SetWeightsOptions& options);
  [[nodiscard]] std::uint32_t parameters_crc32c() const;
  [[nodiscard]] std::uint64_t seed() const;
  [[nodiscard]] double learning_rate() const;
  void set_learning_rate(double learning_rate);
  [[nodiscard]] std::int64_t iterations() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> held_;
};

}  // namespace lockstep_test
