// A small model learns from a large one. `distillation --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <optional>
#include <string>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

template <std::size_t Hidden>
using Net =
    ls::Sequential<ls::Input<28, 28>, ls::Flatten, ls::Dense<Hidden, ls::ReLU>, ls::Dense<10>>;
constexpr ls::SparseCategoricalCrossentropy crossentropy{.from_logits = true};

/// Half the loss of the labels, and half the divergence from the teacher's softened answers, times
/// the temperature squared (Hinton et al., "Distilling the knowledge in a neural network", 2015).
struct Distillation {
  ls::TensorView<const float> teacher;
  double temperature = 4;

  void compute(ls::TensorView<const float> predictions, ls::TensorView<const float> targets,
               std::span<double> losses, ls::TensorView<float> gradient) const {
    using Row = Eigen::Array<double, 1, 10>;
    const auto softened = [&](const auto& scores, Eigen::Index row) {
      const Row z = scores.matrix().row(row).template cast<double>() / temperature;
      const Row e = (z - z.maxCoeff()).exp();
      return Row(e / e.sum());
    };
    crossentropy.compute(predictions, targets, losses, gradient);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i);
      const Row wanted = softened(teacher, row), got = softened(predictions, row);
      const double divergence = (wanted * (wanted.max(1e-30) / got.max(1e-30)).log()).sum();
      losses[i] = (losses[i] + temperature * temperature * divergence) / 2;
      auto slope = gradient.matrix().row(row);
      slope = (slope + (temperature * (got - wanted)).matrix().cast<float>()) / 2;
    }
  }
};

void train(const examples::RunOptions& options, int epochs, const std::string& checkpoint_dir) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const auto digits = ls::make_synthetic_digits();
  const std::int64_t global_batch = options.batch_size * strategy.num_workers();
  const auto of = [&](const auto& part) {
    return ls::from_tensor_slices(part.images / 255.0f, part.labels);
  };
  const auto training = of(digits.train).shuffle(7'000).batch(global_batch);
  const ls::SGD sgd{.learning_rate = 0.05, .momentum = 0.9};
  auto teacher =
      ls::compile<Net<128>>(strategy, {.seed = options.seed}, crossentropy, sgd, ls::Accuracy{});
  teacher.fit(training, {.epochs = 3, .verbose = options.verbose});
  auto student =
      ls::compile<Net<12>>(strategy, {.seed = options.seed}, crossentropy, sgd, ls::Accuracy{});
  ls::State progress;
  progress.put("epochs", std::int64_t{0});
  ls::Checkpoint checkpoint(student, progress);
  std::optional<ls::CheckpointManager<decltype(checkpoint)>> manager;
  if (!checkpoint_dir.empty())
    manager.emplace(checkpoint, ls::CheckpointManagerOptions{.directory = checkpoint_dir})
        .restore_or_initialize();
  auto batches = strategy.distribute(training);
  for (auto epoch = progress.get<std::int64_t>("epochs"); epoch < epochs; ++epoch) {
    strategy.run([&](auto& replica) {
      auto& here = student.on(replica);
      here.reset_logs();
      for (const auto& batch : batches.on(replica, {.seed = student.seed(), .number = epoch}))
        here.minimize(batch, Distillation{.teacher = teacher.on(replica).forward(batch)});
      if (options.verbose > 0 && replica.collective().rank() == 0)
        std::printf("Epoch %d/%d - loss: %.4f - accuracy: %.4f\n", static_cast<int>(epoch) + 1,
                    epochs, here.logs().at("loss"), here.logs().at("accuracy"));
    });
    progress.put("epochs", epoch + 1);
    if (manager) manager->save();
  }

  const auto test = of(digits.test).batch(global_batch);
  const auto accuracy = [&](auto& model) {
    return model.evaluate(test, {.verbose = 0}).at("accuracy");
  };
  const double large = accuracy(teacher), small = accuracy(student);
  if (strategy.is_chief())
    std::printf("final: teacher=%.4f student=%.4f parameters_crc32c=%08x\n", large, small,
                student.parameters_crc32c());
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int epochs = 3;
  std::string checkpoint_dir;
  examples::CommandLine line("distillation");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, epochs);
  line.text("--checkpoint-dir", checkpoint_dir);
  const std::string usage = std::string(R"(usage: distillation [options]
  --epochs N           of the student (default 3)
  --checkpoint-dir DIR save the student there after each epoch, and go on from it
)") + options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, epochs, checkpoint_dir); });
}
