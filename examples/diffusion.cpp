// A diffusion model that draws the digit one asks for, from noise: flow matching, the form in which
// the steps from noise to image are straight. `diffusion --help` lists the options.
#include <lockstep/lockstep.hpp>
#include <lockstep/model/inputs_outputs.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <string>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t side = 14, pixels = side * side, frequencies = 4, hidden = 256;

// A sample: an image between noise (time 0) and a digit (time 1), the time, as sines and cosines of
// several frequencies, and the digit's class. The output is the way from the noise to the digit.
using In = ls::Inputs<ls::NamedInput<"image", pixels>, ls::NamedInput<"time", 2 * frequencies>,
                      ls::NamedInput<"class", 1>>;
using Joined = ls::Parallel<ls::Concatenate, In::Get<"image">, In::Get<"time">,
                            ls::Sequential<In::Get<"class">, ls::Embedding<10, 16>, ls::Flatten>>;
using Block =
    ls::Residual<ls::LayerNormalization<>, ls::Dense<hidden, ls::SiLU>, ls::Dense<hidden>>;
using Net = ls::Sequential<In, Joined, ls::Dense<hidden>, ls::Repeat<3, Block>,
                           ls::LayerNormalization<>, ls::Dense<pixels>>;
constexpr std::size_t sample_size = pixels + 2 * frequencies + 1;

/// Sets what follows the image in a sample.
void set_time_and_class(double time, int label, float* rest) {
  for (std::size_t f = 0; f < frequencies; ++f) {
    const double angle = time * std::numbers::pi / 2 * static_cast<double>(1 << f);
    *rest++ = static_cast<float>(std::sin(angle));
    *rest++ = static_cast<float>(std::cos(angle));
  }
  *rest = static_cast<float>(label);
}

/// A digit becomes a sample at a random time on the straight way to it from random noise. Lipman et
/// al., "Flow matching for generative modeling", 2023; Liu et al., "Flow straight and fast", 2023.
void noise(const ls::Sample<const float>& digit, ls::Sample<float>& sample) {
  ls::RandomStream random(digit.key);
  const double time = random.uniform();
  for (std::size_t p = 0; p < pixels; ++p) {
    const double from = random.normal(), to = digit.x[p];
    sample.x[p] = static_cast<float>(from + time * (to - from));
    sample.y[p] = static_cast<float>(to - from);
  }
  set_time_and_class(time, static_cast<int>(digit.y[0]), &sample.x[pixels]);
}

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Labels = Eigen::VectorXi;

/// The images at half of their size, with pixels from -1 to 1.
Rows halved(const ls::Tensor<std::uint8_t>& images) {
  const auto bytes = images.values();
  Rows small(static_cast<Eigen::Index>(bytes.size() / (4 * pixels)), pixels);
  for (std::size_t i = 0; i < static_cast<std::size_t>(small.size()); ++i) {
    const std::size_t at = i / side * 4 * side + i % side * 2;  // of the first of four pixels
    const int sum = bytes[at] + bytes[at + 1] + bytes[at + 2 * side] + bytes[at + 2 * side + 1];
    small.data()[i] = static_cast<float>(sum) / 510.0f - 1;
  }
  return small;
}

Labels classes(const ls::Tensor<std::uint8_t>& labels) {
  Labels all(static_cast<Eigen::Index>(labels.values().size()));
  std::ranges::copy(labels.values(), all.begin());
  return all;
}

/// A digit for each label: from noise, in small steps, the way that the model says.
template <class Model>
Rows drawn(Model& model, const Labels& labels, ls::RandomKey key) {
  ls::RandomStream random(key);
  Rows x = Rows::NullaryExpr(labels.size(), sample_size,
                             [&] { return static_cast<float>(random.normal()); });
  constexpr double step = 1.0 / 32;
  for (double time = 0; time < 1; time += step) {
    for (Eigen::Index i = 0; i < x.rows(); ++i) set_time_and_class(time, labels(i), &x(i, pixels));
    x.leftCols(pixels) += static_cast<float>(step) * model.predict(x, {.batch_size = x.rows()});
  }
  return x.leftCols(pixels);
}

/// The share of the images that are nearest to the mean image of their class.
double recognised(const Rows& images, const Labels& labels, const Rows& means) {
  double hits = 0;
  for (Eigen::Index i = 0; i < images.rows(); ++i) {
    Eigen::Index nearest = 0;
    (means.rowwise() - images.row(i)).rowwise().squaredNorm().minCoeff(&nearest);
    hits += nearest == labels(i) ? 1 : 0;
  }
  return hits / static_cast<double>(images.rows());
}

void train(const examples::RunOptions& options, int epochs) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const auto digits = ls::make_synthetic_digits();
  const Rows images = halved(digits.train.images);
  const auto samples = ls::from_tensor_slices(images, digits.train.labels)
                           .shuffle(7'000)
                           .map(noise, {.sample_size = sample_size, .target_size = pixels})
                           .batch(options.batch_size * strategy.num_workers());
  auto model =
      ls::compile<Net>(strategy, {.seed = options.seed}, ls::MeanSquaredError{},
                       ls::Adam{.learning_rate = 0.001, .use_ema = true, .ema_momentum = 0.99});
  const auto history = model.fit(samples, {.epochs = epochs, .verbose = options.verbose});

  const Labels wanted = Labels::LinSpaced(200, 0, 199).unaryExpr([](int i) { return i % 10; });
  const Rows results = drawn(model, wanted, ls::RandomKey(options.seed).fold_in(1));
  if (!strategy.is_chief()) return;
  for (int y = 0; y < 14; ++y) {  // four of them, side by side
    for (int column = 0; column < 4 * 12; ++column) {
      const float ink = std::clamp(results(column / 12, 14 * y + column % 12 + 1), -1.0f, 1.0f);
      std::printf("%.2s", &"    ..::##"[2 * static_cast<int>(2.4f * ink + 2.5f)]);
    }
    std::putchar('\n');
  }
  Rows means(10, pixels);
  for (int digit = 0; digit < 10; ++digit) {
    const Eigen::RowVectorXf of_digit =
        (classes(digits.train.labels).array() == digit).cast<float>();
    means.row(digit) = of_digit * images / of_digit.sum();
  }
  std::printf("final: loss=%.4f recognised=%.3f of_real=%.3f parameters_crc32c=%08x\n",
              examples::last(history, "loss"), recognised(results, wanted, means),
              recognised(halved(digits.test.images), classes(digits.test.labels), means),
              static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int epochs = 15;
  examples::CommandLine line("diffusion");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, epochs);
  const std::string usage =
      std::string("usage: diffusion [options]\n  --epochs N           (default 15)\n") +
      options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, epochs); });
}
