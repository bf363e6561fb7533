// A variational autoencoder of drawn digits: fit trains encoder and decoder as one network, and the
// decoder alone then draws new digits. `vae --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t pixels = 28 * 28, latent = 8;

// The encoder's output: the mean of each latent number, and the logarithm of its variance.
using Encoder = ls::Sequential<ls::Dense<256, ls::ReLU>, ls::Dense<2 * latent>>;
using Mean = ls::Slice<0, latent>;
using LogVariance = ls::Slice<latent, latent>;
// z = mean + deviation * noise, so that gradients pass (the reparameterization trick). The noise is
// drawn in training alone; in evaluate and predict z is the mean.
using Deviation = ls::Sequential<LogVariance, ls::Rescaling<0.5>, ls::Activation<ls::Exponential>>;
using Noise = ls::Sequential<Mean, ls::Rescaling<0.0>, ls::GaussianNoise<1.0>>;
using Draw = ls::Parallel<ls::Add, Mean, ls::Parallel<ls::Multiply, Deviation, Noise>>;
using Decoder = ls::Sequential<ls::Dense<256, ls::ReLU>, ls::Dense<pixels>>;  // logits
// The loss sees the drawn image and what the encoder said, side by side.
using Net =
    ls::Sequential<ls::Input<pixels>, Encoder,
                   ls::Parallel<ls::Concatenate, ls::Sequential<Draw, Decoder>, ls::Identity>>;
using Artist = ls::Sequential<ls::Input<latent>, Decoder, ls::Activation<ls::Sigmoid>>;

/// The negative evidence lower bound (ELBO) in nats: the cross-entropy of all pixels, and the
/// divergence of the encoder's normal distribution from N(0, 1). Kingma, Welling, "Auto-encoding
/// variational Bayes", 2014.
struct NegativeElbo {
  static constexpr std::string_view name = "negative_elbo";
  template <class Out>
  static constexpr std::size_t target_size = pixels;
  std::string description() const { return std::string(name); }

  template <class T>
  void compute(ls::TensorView<const T> output, ls::TensorView<const T> image,
               std::span<double> losses, ls::TensorView<T> gradient) const {
    for (std::size_t row = 0; row < losses.size(); ++row) {
      double sum = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        const T x = output(row, p), wanted = image(row, p);
        sum += static_cast<double>(std::max(x, T(0)) - x * wanted +
                                   std::log1p(std::exp(-std::abs(x))));
        if (!gradient.empty()) gradient(row, p) = 1 / (1 + std::exp(-x)) - wanted;
      }
      for (std::size_t m = pixels; m < pixels + latent; ++m) {
        const T mean = output(row, m), log_variance = output(row, m + latent);
        const T variance = std::exp(log_variance);
        sum += static_cast<double>(mean * mean + variance - 1 - log_variance) / 2;
        if (gradient.empty()) continue;
        gradient(row, m) = mean;
        gradient(row, m + latent) = (variance - 1) / 2;
      }
      losses[row] = sum;
    }
    if (!gradient.empty()) gradient.clear_padding();
  }
};
static_assert(ls::Loss<NegativeElbo, ls::Shape<pixels + 2 * latent>>);

/// Rows of pixels from 0 to 1.
Eigen::MatrixXf matrix(const ls::Tensor<std::uint8_t>& images) {
  using Bytes = Eigen::Matrix<std::uint8_t, Eigen::Dynamic, pixels, Eigen::RowMajor>;
  const auto rows = static_cast<Eigen::Index>(images.values().size() / pixels);
  return Eigen::Map<const Bytes>(images.values().data(), rows, pixels).cast<float>() / 255.0f;
}

/// The mean over the rows of the squared distance to the nearest of the images.
double distance(const Eigen::MatrixXf& rows, const Eigen::MatrixXf& images) {
  double sum = 0;
  for (Eigen::Index i = 0; i < rows.rows(); ++i)
    sum += (images.rowwise() - rows.row(i)).rowwise().squaredNorm().minCoeff();
  return sum / static_cast<double>(rows.rows());
}

void train(const examples::RunOptions& options, int epochs) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const auto digits = ls::make_synthetic_digits();
  const Eigen::MatrixXf images = matrix(digits.train.images), others = matrix(digits.test.images);
  const std::int64_t batch = options.batch_size * strategy.num_workers();
  auto model = ls::compile<Net>(strategy, {.seed = options.seed}, NegativeElbo{},
                                ls::Adam{.learning_rate = 0.001});
  const auto history = model.fit(ls::from_tensor_slices(images, images).shuffle(7'000).batch(batch),
                                 {.epochs = epochs, .verbose = options.verbose});

  auto artist = ls::compile<Artist>(strategy);
  const auto weights = model.get_weights();  // at the end the decoder's kernels and biases
  artist.set_weights({weights.end() - 4, weights.end()});
  ls::RandomStream random{ls::RandomKey(options.seed).fold_in(1)};
  const Eigen::MatrixXf z = Eigen::MatrixXf::NullaryExpr(
      1'000, latent, [&] { return static_cast<float>(random.normal()); });
  const Eigen::MatrixXf drawn = artist.predict(z);
  if (!strategy.is_chief()) return;
  for (int y = 2; y < 26; y += 2) {  // six of them, side by side
    for (int i = 0; i < 6; ++i)
      for (int x = 4; x < 24; ++x)
        std::putchar(" .:*#"[static_cast<int>(4.99f * drawn(i, 28 * y + x))]);
    std::putchar('\n');
  }
  // The loss of the best decoder that knows nothing of its image: it draws the mean of them all.
  const Eigen::ArrayXf mean = images.colwise().mean().array().max(1e-6f);
  const float without = -(mean * mean.log() + (1 - mean) * (1 - mean).log()).sum();
  // How far drawn digits are from real ones, and real ones from those drawn; real ones have 1.
  const auto some = others.topRows(100);
  const double far = distance(drawn.topRows(100), images) / distance(some, images);
  const double missed = distance(some, drawn) / distance(some, images.topRows(1'000));
  std::printf("final: loss=%.2f without=%.2f far=%.3f missed=%.3f parameters_crc32c=%08x\n",
              examples::last(history, "loss"), static_cast<double>(without), far, missed,
              static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int epochs = 10;
  examples::CommandLine line("vae");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, epochs);
  const std::string usage =
      std::string("usage: vae [options]\n  --epochs N           (default 10)\n") + options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, epochs); });
}
