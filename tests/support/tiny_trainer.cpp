#include "support/tiny_trainer.hpp"

#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/own_loop.hpp"
#include "lockstep/strategies/mirrored.hpp"

namespace ls = lockstep;

namespace lockstep_test {

struct TinyTrainer::Implementation {
  using TinyModel = ls::Model<TinyNet, float, ls::MirroredStrategy,
                              ls::SparseCategoricalCrossentropy, ls::SGD, ls::Accuracy>;

  ls::MirroredStrategy strategy;
  TinyModel model;

  explicit Implementation(const TinyOptions& options)
      : strategy({.replicas = options.replicas}),
        model(strategy, {.seed = options.seed},
              ls::SparseCategoricalCrossentropy{.from_logits = true},
              ls::SGD{.learning_rate = options.learning_rate,
                      .momentum = options.momentum,
                      .global_clipnorm = options.global_clipnorm},
              {}) {}
};

namespace {

template <class Options>
Options silent(Options options) {
  options.verbose = 0;
  return options;
}

/// A BackupAndRestore or none, so that one list of callbacks is compiled for both.
struct PerhapsBackup {
  const ls::BackupAndRestore* backup = nullptr;
  void on_train_begin(ls::Training& training) const {
    if (backup != nullptr) backup->on_train_begin(training);
  }
  void on_epoch_complete(ls::Training& training, int epoch) const {
    if (backup != nullptr) backup->on_epoch_complete(training, epoch);
  }
  void on_train_batch_begin(ls::Training& training, std::int64_t batch) const {
    if (backup != nullptr) backup->on_train_batch_begin(training, batch);
  }
  void on_train_batch_complete(ls::Training& training, std::int64_t batch) const {
    if (backup != nullptr) backup->on_train_batch_complete(training, batch);
  }
  void on_preemption(ls::Training& training) const {
    if (backup != nullptr) backup->on_preemption(training);
  }
  void on_train_end(ls::Training& training, ls::Logs& logs) const {
    if (backup != nullptr) backup->on_train_end(training, logs);
  }
  void on_train_abort(ls::Training& training) const {
    if (backup != nullptr) backup->on_train_abort(training);
  }
};

}  // namespace

TinyTrainer::TinyTrainer(TinyOptions options) : held_(std::make_unique<Implementation>(options)) {}
TinyTrainer::~TinyTrainer() = default;

ls::History TinyTrainer::fit(const ls::AnyDataset& data, ls::FitOptions options,
                             Recorder* recorder) {
  Recorder own;
  PerhapsBackup none;
  return held_->model.fit(data, silent(options), recorder == nullptr ? own : *recorder, none);
}
ls::History TinyTrainer::fit(const ls::AnyDataset& data, ls::FitOptions options, Recorder& recorder,
                             ls::BackupAndRestore& backup) {
  PerhapsBackup some{&backup};
  return held_->model.fit(data, silent(options), recorder, some);
}
ls::History TinyTrainer::fit(const TinyData& data, ls::FitOptions options, Recorder* recorder) {
  Recorder own;
  PerhapsBackup none;
  return held_->model.fit(data.x, data.y, silent(options), recorder == nullptr ? own : *recorder,
                          none);
}
ls::History TinyTrainer::fit_alone(const ls::AnyDataset& data, ls::FitOptions options) {
  return held_->model.fit(data, silent(options));
}

void TinyTrainer::loop(const ls::AnyDataset& data, std::int64_t steps) {
  auto batches = held_->strategy.distribute(data);
  held_->strategy.run([&](auto& replica) {
    auto& here = held_->model.on(replica);
    std::int64_t step = 0;
    for (const auto& batch : batches.on(replica)) {
      if (step++ == steps) break;
      step % 2 == 0 ? here.minimize(batch) : here.apply(here.gradients(batch));
    }
  });
}

ls::Logs TinyTrainer::evaluate(const ls::AnyDataset& data, ls::EvaluateOptions options,
                               Recorder* recorder) {
  Recorder own;
  return held_->model.evaluate(data, silent(options), recorder == nullptr ? own : *recorder);
}
ls::Logs TinyTrainer::evaluate(const TinyData& data, ls::EvaluateOptions options) {
  return held_->model.evaluate(data.x, data.y, silent(options));
}
TinyTrainer::Matrix TinyTrainer::predict(const ls::AnyDataset& data, ls::PredictOptions options,
                                         Recorder* recorder) {
  Recorder own;
  return held_->model.predict(data, options, recorder == nullptr ? own : *recorder);
}
TinyTrainer::Matrix TinyTrainer::predict(const TinyData& data, ls::PredictOptions options) {
  return held_->model.predict(data.x, options);
}

ls::Logs TinyTrainer::train_on_batch(const Matrix& x, const std::vector<int>& y) {
  return held_->model.train_on_batch(x, y);
}
ls::Logs TinyTrainer::test_on_batch(const Matrix& x, const std::vector<int>& y) {
  return held_->model.test_on_batch(x, y);
}
TinyTrainer::Matrix TinyTrainer::predict_on_batch(const Matrix& x) {
  return held_->model.predict_on_batch(x);
}

std::vector<ls::Weight<float>> TinyTrainer::get_weights() const {
  return held_->model.get_weights();
}
void TinyTrainer::set_weights(const std::vector<ls::Weight<float>>& weights) {
  held_->model.set_weights(weights);
}
void TinyTrainer::set_weights(const std::vector<ls::Weight<float>>& weights,
                              const ls::SetWeightsOptions& options) {
  held_->model.set_weights(weights, options);
}
std::uint32_t TinyTrainer::parameters_crc32c() const { return held_->model.parameters_crc32c(); }
std::uint64_t TinyTrainer::seed() const { return held_->model.seed(); }
double TinyTrainer::learning_rate() const { return held_->model.learning_rate(); }
void TinyTrainer::set_learning_rate(double learning_rate) {
  held_->model.set_learning_rate(learning_rate);
}
std::int64_t TinyTrainer::iterations() const { return held_->model.iterations(); }

}  // namespace lockstep_test
