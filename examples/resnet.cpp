// Trains ResNet-20 on CIFAR-10: alone, on threads, or on several workers. `resnet --help` lists the
// options.
#include <lockstep/lockstep.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016, section 4.2.
// Where a block changes the shape, its shortcut is a convolution of 1 x 1 (option B of the paper).
constexpr ls::Conv2DOptions convolution(std::size_t stride) {
  return {.stride = stride,
          .padding = ls::Padding::same,
          .use_bias = false,
          .kernel_initializer = ls::he_normal};
}
template <std::size_t Filters, std::size_t Kernel = 3, std::size_t Stride = 1>
using Convolution = ls::Conv2D<Filters, Kernel, ls::Linear, convolution(Stride)>;
using Normalize = ls::BatchNormalization<ls::Linear, ls::BatchNormalizationOptions{
                                                         .momentum = 0.9, .epsilon = 1e-5}>;
using Activate = ls::Activation<ls::ReLU>;

template <std::size_t Filters>
using Block = ls::Sequential<
    ls::Residual<Convolution<Filters>, Normalize, Activate, Convolution<Filters>, Normalize>,
    Activate>;
template <std::size_t Filters>
using Halve = ls::Sequential<ls::Residual<ls::Sequential<Convolution<Filters, 3, 2>, Normalize,
                                                         Activate, Convolution<Filters>, Normalize>,
                                          ls::Sequential<Convolution<Filters, 1, 2>, Normalize>>,
                             Activate>;

// PyTorch's initial values for the last layer: small ones, so that training begins near the loss of
// guessing.
using Scores =
    ls::Dense<10, ls::Linear,
              ls::DenseOptions{.kernel_initializer = ls::VarianceScaling{
                                   .scale = 1.0 / 3, .distribution = ls::Distribution::uniform}}>;

using ResNet20 =
    ls::Sequential<ls::Input<32, 32, 3>, Convolution<16>, Normalize, Activate, Block<16>, Block<16>,
                   Block<16>, Halve<32>, Block<32>, Block<32>, Halve<64>, Block<64>, Block<64>,
                   ls::GlobalAveragePooling2D, Scores>;
static_assert(ResNet20::parameter_count == 272'474);

struct Options : examples::TrainingOptions {
  std::string data;
  int epochs = 180;
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
};

/// For map: channels with mean 0 and deviation 1, over the training images of CIFAR-10.
void normalize_channels(auto& sample) {
  using T = std::remove_reference_t<decltype(sample.x[0])>;
  constexpr std::array<T, 3> mean{T(0.4914), T(0.4822), T(0.4465)},
      deviation{T(0.2470), T(0.2435), T(0.2616)};
  for (std::size_t i = 0; i < sample.x.size(); ++i)
    sample.x[i] = (sample.x[i] - mean[i % 3]) / deviation[i % 3];
}

void train(const Options& options) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const ls::ImageDataset cifar = ls::load_cifar10(options.data);
  const auto count = static_cast<std::int64_t>(cifar.train.images.rows());
  const std::int64_t global_batch = options.batch_size * strategy.num_workers();
  const std::int64_t updates = count / global_batch * options.epochs;
  constexpr ls::ImageShape image{32, 32, 3};
  const auto normalize = [](auto& sample) { normalize_channels(sample); };
  const auto training =
      ls::from_tensor_slices(cifar.train.images / 255.0f, cifar.train.labels)
          .shuffle(count)
          .map(normalize)  // first, so that the border of a crop is the mean colour
          .map(ls::RandomCrop{.image = image, .padding = 4})
          .map(ls::RandomFlip{.image = image})
          .batch(global_batch, true);
  const auto test = ls::from_tensor_slices(cifar.test.images / 255.0f, cifar.test.labels)
                        .map(normalize)
                        .batch(global_batch);

  // The paper's weight decay is part of the gradient, and so goes through the momentum. Decoupled
  // from it, it must be 1 / (1 - momentum) times as large for the same pull.
  const double rate = options.learning_rate;
  auto model = ls::compile<ResNet20>(
      strategy, {.seed = options.seed}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::SGD{.learning_rate =
                  ls::PiecewiseConstantDecay{.boundaries = {updates * 2 / 3, updates * 9 / 10},
                                             .values = {rate, rate / 10, rate / 100}},
              .momentum = options.momentum,
              .weight_decay = options.weight_decay / (1 - options.momentum)},
      ls::Accuracy{});
  if (options.verbose > 0 && strategy.is_chief()) model.summary();
  options.load(model);
  auto backup = options.backup();
  const ls::History history =
      model.fit(training, {.epochs = options.epochs, .verbose = options.verbose}, backup);
  options.save(model);
  const ls::Logs tested = model.evaluate(test, {.verbose = 0});
  if (strategy.is_chief())
    std::printf("final: loss=%.6f accuracy=%.4f val_accuracy=%.4f parameters_crc32c=%08x\n",
                examples::last(history, "loss"), examples::last(history, "accuracy"),
                tested.at("accuracy"), static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.batch_size = 128;
  examples::CommandLine line("resnet");
  options.add_to(line);
  line.text("--data", options.data);
  line.number("--epochs", 1, 1'000'000, options.epochs);
  line.number("--learning-rate", 0.0, 1e6, options.learning_rate);
  line.number("--momentum", 0.0, 0.999, options.momentum);
  line.number("--weight-decay", 0.0, 1.0, options.weight_decay);
  const std::string usage =
      std::string(R"(usage: resnet --data DIR [options]
  --data DIR           train.bin (or data_batch_1.bin to data_batch_5.bin) and test_batch.bin of
                       CIFAR-10's binary version
  --epochs N           (default 180)
  --learning-rate X    at first; a tenth of it after 2/3 of the epochs, a hundredth after 9/10
                       (default 0.1)
  --momentum X         (default 0.9)
  --weight-decay X     as the paper counts it (default 0.0001)
)") + options.usage +
      "The last line is: final: loss=L accuracy=A val_accuracy=V parameters_crc32c=HEX\n";
  return examples::run(argc, argv, line, usage, [&] { train(options); });
}
