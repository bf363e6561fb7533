// Predictor: a trained model for inference, from any number of threads at once.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/few_samples.hpp"
#include "lockstep/saving/constant_variables.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Runs a Program forward with constant variables. Any number of threads may call it at once; the
/// memory that their calls have used is kept for the next ones.
template <class T>
class Inference {
 public:
  /// `program` must outlive it.
  Inference(const Program<T>& program, const FewSamples<T>& few, ConstantVariables<T> variables)
      : program_(program), few_(few), variables_(std::move(variables)) {}
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;
  ~Inference();

  /// Writes the samples with these numbers to the view.
  using Read = FunctionRef<void(std::span<const std::int64_t> samples, TensorView<T> x)>;
  /// `y`: the outputs of samples 0, 1, ..., for as many as fit. Throws DataError, naming the
  /// sample, for one that a layer cannot use.
  void predict(Read read, std::span<T> y) const;
  /// The same for samples that are contiguous. Throws ConfigurationError for arrays with different
  /// numbers of samples, or with a number other than `samples`, if that is not 0.
  void predict(std::string_view where, std::size_t samples, std::span<const T> x,
               std::span<T> y) const;

  /// Throws DataError for samples of another shape than the model's Input.
  void check_shape(std::span<const std::size_t> shape, std::size_t size) const;

 private:
  struct Memory;
  struct alignas(cache_line) Place {
    std::atomic<Memory*> memory{nullptr};
  };
  /// Place `number` in the calling thread's order, which differs between threads.
  [[nodiscard]] std::atomic<Memory*>& place(std::size_t number) const;

  [[nodiscard]] std::size_t outputs() const noexcept {
    return program_.layout().outputs * program_.layout().positions;
  }
  [[nodiscard]] std::size_t elements(std::size_t samples) const;
  [[nodiscard]] std::size_t samples_at_once() const;
  [[nodiscard]] Memory* take() const;
  void give_back(Memory* memory) const noexcept;
  void forward(Memory& memory, std::size_t first, std::size_t samples, Read read, T* y) const;
  void forward_few(Memory& memory, std::size_t first, std::size_t samples, Read read, T* y) const;

  const Program<T>& program_;
  FewSamples<T> few_;
  ConstantVariables<T> variables_;
  const std::size_t at_once_ = samples_at_once();  // in a forward pass
  mutable std::array<Place, 16> places_;
};

}  // namespace detail

/// A trained model for inference, without loss, optimizer, metrics and strategy. Its variables stay
/// as they are: any number of threads may call one object at once, and none waits for another. A
/// call computes on its thread alone.
///
/// Outputs are those of Model::predict, bit for bit, on the same instruction set, but for layers
/// that draw random numbers in inference. Calls with spans allocate nothing once there were calls
/// with as many samples on as many threads (the memory of up to 16 calls is kept).
///
/// @code
/// const ls::Predictor<Net> net("net.safetensors");
/// const std::vector<float> y = net.predict_row(x);
/// @endcode
///
/// P is the scalar type of all arrays, or a policy: Int8Weights (saving/int8_weights.hpp), or
/// MixedBFloat16 or MixedFloat16, with outputs of a model that was compiled with it.
///
/// Neither copied nor moved: a std::shared_ptr<const Predictor> is what threads share.
/// Use: `Predictor<Net>("net.safetensors")`. Keras: none.
template <class Net, class P = float>
class Predictor {
  using Under = detail::InInference<Net, P>;
  using T = typename Under::Scalar;
  static_assert(
      !requires { Net::device(); },
      "lockstep: a Predictor computes on the processor: give it the network without On; files fit "
      "both");

 public:
  using InputShape = typename Net::InputShape;
  using OutputShape = typename Net::template Output<InputShape>;
  using Predictions = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr std::size_t input_size = InputShape::size;    ///< numbers of a sample
  static constexpr std::size_t output_size = OutputShape::size;  ///< numbers of its outputs

  /// With the variables of any file or folder that Model::load_weights reads: of weights, or of a
  /// whole training. Throws DataError when it cannot be read or is damaged, ConfigurationError
  /// naming a variable that is missing, unknown or of another shape.
  explicit Predictor(const std::string& path)
      : inference_(*program_, few,
                   Under::prepared(*program_, {*program_, path, nullptr, loaded_})) {}
  /// From a file of another program, with its names and layout.
  Predictor(const std::string& path, const LoadWeightsOptions& options)
      : inference_(*program_, few,
                   Under::prepared(*program_, {*program_, path, &options, loaded_})) {}
  /// With copies of a model's present variables. Where Model::predict may be called: not on another
  /// thread while the model trains.
  template <class N, class S, class Loss, class Optimizer, class... Metrics>
    requires std::same_as<N, Net> || std::same_as<N, typename Under::Network>
  explicit Predictor(const Model<N, T, S, Loss, Optimizer, Metrics...>& model)
      : inference_(
            *program_, few,
            Under::prepared(
                *program_,
                {*program_,
                 detail::ModelFiles<std::remove_cvref_t<decltype(model)>>::trainer(model)})) {}

  /// What became of each variable, if options were given.
  /// Use: `predictor.loaded()`. Keras: none.
  [[nodiscard]] const LoadedWeights& loaded() const noexcept { return loaded_; }

  /// The outputs of one sample, whose numbers are in row-major order (of Input<28, 28, 3>: row by
  /// row, pixel by pixel). Throws ConfigurationError when they are not input_size, DataError for
  /// one that a layer cannot use (an id outside the vocabulary).
  /// Use: `predictor.predict_row(x)`. Keras: none.
  [[nodiscard]] std::vector<T> predict_row(std::span<const T> x) const {
    std::vector<T> y(output_size);
    predict_row(x, y);
    return y;
  }
  /// The same into `y`, output_size numbers.
  void predict_row(std::span<const T> x, std::span<T> y) const {
    inference_.predict("predict_row", 1, x, y);
  }

  /// The outputs of several samples, one after the other in both arrays.
  void predict(std::span<const T> x, std::span<T> y) const {
    inference_.predict("predict", 0, x, y);
  }
  /// The outputs of a Tensor or an Eigen matrix, a row for each of its rows. Throws DataError for
  /// samples of another shape than the model's Input.
  /// Use: `predictor.predict(Tensor(x))`.
  template <class X>
  [[nodiscard]] Predictions predict(const X& x) const {
    static_assert(detail::Array<X>,
                  "lockstep: Predictor::predict(x) needs an array: a Tensor, an Eigen matrix or a "
                  "std::vector; Model::predict takes datasets");
    if constexpr (detail::Array<X>) {
      const Tensor tensor(x);
      inference_.check_shape(tensor.sample_shape(), tensor.sample_size());
      Predictions y(static_cast<Eigen::Index>(tensor.rows()),
                    static_cast<Eigen::Index>(output_size));
      inference_.predict([&](std::span<const std::int64_t> samples,
                             TensorView<T> view) { detail::gather(tensor, samples, view); },
                         {y.data(), static_cast<std::size_t>(y.size())});
      return y;
    }
  }

 private:
  using Program = detail::Compiled<typename Under::Network, T, NoLoss, NoOptimizer>;
  static constexpr detail::FewSamples<T> few = detail::few_samples_of<typename Under::Network, T>();

  const std::unique_ptr<const Program> program_ =
      std::make_unique<const Program>(NoLoss{}, NoOptimizer{}, std::tuple<>());
  LoadedWeights loaded_{};
  detail::Inference<T> inference_;
};

template <class Net, class T, class S, class Loss, class Optimizer, class... Metrics>
Predictor(const Model<Net, T, S, Loss, Optimizer, Metrics...>&) -> Predictor<Net, T>;

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/predictor.ipp"
#endif
