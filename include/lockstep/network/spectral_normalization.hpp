// SpectralNormalization: a layer whose kernel is divided by its largest singular value.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_place.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Compile-time options of SpectralNormalization; the default is Keras's.
struct SpectralNormalizationOptions {
  std::size_t power_iterations = 1;  ///< for each step
};

namespace detail {

/// "dense/kernel", as an array without an end.
template <std::size_t Size>
consteval std::array<char, Size> name_inside(std::string_view layer, std::string_view variable) {
  std::array<char, Size> name{};
  char* const slash = std::copy(layer.begin(), layer.end(), name.begin());
  *slash = '/';
  std::copy(variable.begin(), variable.end(), slash + 1);
  return name;
}
template <class L, class In, std::size_t Index>
struct NameInside {
  static constexpr std::string_view variable = variables_of<L, In>()[Index].name;
  static constexpr auto name =
      name_inside<std::string_view(L::name).size() + 1 + variable.size()>(L::name, variable);
};

/// The variables of L, named as inside a layer that holds it, which reads the kernel itself.
template <class L, class In, std::size_t... Index>
consteval auto variables_inside(std::index_sequence<Index...>) {
  constexpr std::span<const Variable> own = variables_of<L, In>();
  std::array<Variable, sizeof...(Index)> all{own[Index]...};
  ((all[Index].name = std::string_view(NameInside<L, In, Index>::name.data(),
                                       NameInside<L, In, Index>::name.size())),
   ...);
  for (Variable& variable : all) variable.product_units = 0;
  return all;
}

/// The largest singular value of a matrix [rows x columns], and its vectors, by power iteration.
/// Sums have one order, so that all ranks have the same bits.
template <class T>
struct SpectralNorm {
  std::size_t rows, columns;
  const T* matrix;
  T* u;  ///< [columns], of length 1
  T* v;  ///< [rows], of length 1

  /// u becomes a better one, `iterations` times; v is the one that fits to the last u but one, as
  /// in Keras. Returns v matrix u. All zero: 0.
  [[nodiscard]] T improve(std::size_t iterations) const {
    double sigma = 0;
    for (std::size_t i = 0; i < iterations; ++i) {
      fit_v();
      sigma = fit_u();
    }
    return static_cast<T>(sigma);
  }
  /// With the direction of u as it is: |matrix u| / |u|.
  [[nodiscard]] T value() const {
    normalize(u, columns);
    return static_cast<T>(fit_v());
  }

 private:
  static double square(T value) { return static_cast<double>(value) * static_cast<double>(value); }

  /// Returns the length before.
  static double normalize(T* values, std::size_t count) {
    double length = 0;
    for (std::size_t i = 0; i < count; ++i) length += square(values[i]);
    length = std::sqrt(length);
    if (length > 0)
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(static_cast<double>(values[i]) / length);
    return length;
  }
  double fit_v() const {
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c)
        sum += static_cast<double>(matrix[r * columns + c]) * static_cast<double>(u[c]);
      v[r] = static_cast<T>(sum);
    }
    return normalize(v, rows);
  }
  double fit_u() const {
    std::fill_n(u, columns, T(0));
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) u[c] += v[r] * matrix[r * columns + c];
    return normalize(u, columns);
  }
};

template <class L>
struct SpectralSequence {};
template <SequenceLayer L>
struct SpectralSequence<L> {
  static constexpr bool takes_sequences = true;
};

template <std::size_t Position, class L, class In>
concept LayerWithKernel = !variables_of<L, In>().empty() && variables_of<L, In>()[0].rank > 1 &&
                          state_variables_of<L, In>().empty();

}  // namespace detail

/// L (Dense, Conv2D, Embedding, ...) with its kernel W divided by sigma, the largest singular value
/// of W seen as a matrix of [all other extents x the last one]: a layer whose output changes no
/// faster than its input. In training, u is improved first, power_iterations times:
///
///   v = W u / |W u|    u = W' v / |W' v|    sigma = v' W u
///
/// The gradient of W goes through the division, with u and v as constants. Variables: those of L,
/// and vector_u [1 x last extent], which is not trained. Miyato, Kataoka, Koyama, Yoshida,
/// "Spectral normalization for generative adversarial networks", ICLR 2018.
///
/// Keras does the same with W in training, but it overwrites W by W / sigma, and its inference does
/// not divide. Here W stays as the optimizer has left it, and inference divides by |W u| / |u|: so
/// weights of Keras give outputs that differ from Keras's by the last step's change of sigma.
/// @code
/// using Critic = Sequential<Input<28, 28, 1>, SpectralNormalization<Conv2D<32, 3, ReLU>>, Flatten,
///                           SpectralNormalization<Dense<1>>>;
/// @endcode
/// Use: `SpectralNormalization<Dense<8>>`: Shape<20> -> Shape<8>; dense/kernel (20, 8), dense/bias
/// (8); not trained: vector_u (1, 8).
template <class L, SpectralNormalizationOptions Options = SpectralNormalizationOptions{}>
struct SpectralNormalization : detail::SpectralSequence<L> {
 private:
  template <class In>
  static constexpr Variable kernel = detail::variables_of<L, In>()[0];
  template <class In>
  static constexpr std::size_t columns = kernel<In>.extents[kernel<In>.rank - 1];
  template <class In>
  static constexpr std::size_t rows = kernel<In>.size() / columns<In>;

 public:
  static_assert(Options.power_iterations > 0,
                "lockstep: SpectralNormalization needs at least one power iteration");
  static_assert(
      !requires { L::layer_count; },
      "lockstep: SpectralNormalization takes a layer with a kernel, and no container: give it to "
      "each layer inside");

  static constexpr std::string_view name = "spectral_normalization";
  static constexpr bool keeps_padding = detail::keeps_padding<L>;
  static constexpr bool keeps_mask = detail::keeps_mask<L>;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(detail::LayerWithKernel<Position, L, In>,
                  "lockstep: the layer of SpectralNormalization has no kernel: give it ls::Dense, "
                  "ls::Conv2D, ls::Embedding, ...");
    if constexpr (requires { L::template check<Position, In>(); })
      return L::template check<Position, In>();
    else
      return true;
  }

  template <class In>
  using Output = typename L::template Output<In>;

  template <class In>
  static constexpr auto variables = detail::variables_inside<L, In>(
      std::make_index_sequence<detail::variables_of<L, In>().size()>{});
  template <class In>
  static constexpr std::array state_variables{
      Variable{"vector_u", {1, columns<In>}, Initializer(TruncatedNormal{.stddev = 0.02})}};

  template <class In>
  static constexpr const detail::KeptFormat* kept_format = detail::kept_format<L, In>();
  template <class In>
  static constexpr Flop flop = detail::flop_of<L, In>();

  /// L's scratch, and behind it the divided kernel, v, the u that forward used, and sigma.
  template <class In>
  static constexpr std::size_t scratch(std::size_t size) {
    return scratch_of_layer<In>(size) + padded_batch(kernel<In>.size()) + padded_batch(rows<In>) +
           padded_batch(columns<In>) + batch_multiple;
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t size) {
    if constexpr (requires { L::template temporary<In>(size); })
      return L::template temporary<In>(size);
    else
      return 0;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const Arrays<In, T> arrays(pass);
    const std::span<const T> whole = pass.weights[0];
    std::ranges::copy(pass.state[0], arrays.u);
    const detail::SpectralNorm<T> norm{rows<In>, columns<In>, whole.data(), arrays.u, arrays.v};
    const bool improves = pass.context.training && !pass.context.frozen;
    T sigma = improves ? norm.improve(Options.power_iterations) : norm.value();
    if (sigma == T(0))
      sigma = T(1);  // as in Keras, a kernel of zeros stays, and u with it
    else if (improves)
      std::copy_n(arrays.u, columns<In>, pass.state[0].begin());
    *arrays.sigma = sigma;
    for (std::size_t i = 0; i < whole.size(); ++i) arrays.kernel[i] = whole[i] / sigma;
    Weights<In, T> weights(pass.weights, arrays);
    L::template forward<In, T>({.context = pass.context,
                                .weights = weights.slices,
                                .state = pass.state.subspan(1),
                                .x = pass.x,
                                .y = pass.y,
                                .scratch = pass.scratch.first(arrays.own),
                                .mask = pass.mask,
                                .mask_of_y = pass.mask_of_y,
                                .temporary = pass.temporary});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In>(pass, [](const BackwardPass<T>& own) { L::template backward<In, T>(own); });
  }
  template <class In, class T>
    requires requires(const BackwardPass<T>& pass) { L::template backward_weights<In, T>(pass); }
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In>(pass,
                     [](const BackwardPass<T>& own) { L::template backward_weights<In, T>(own); });
  }

 private:
  template <class In>
  static constexpr std::size_t scratch_of_layer(std::size_t size) {
    if constexpr (requires { L::template scratch<In>(size); })
      return padded_batch(L::template scratch<In>(size));
    else
      return 0;
  }

  /// What lies behind the scratch of L.
  template <class In, class T>
  struct Arrays {
    std::size_t own;
    T *kernel, *v, *u, *sigma;

    template <class Pass>
    explicit Arrays(const Pass& pass)
        : own(scratch_of_layer<In>(SequenceLayer<L>
                                       ? detail::samples_of(pass.x, detail::tensor_size<In>)
                                       : pass.x.stride())),
          kernel(pass.scratch.data() + own),
          v(kernel + padded_batch(SpectralNormalization::kernel<In>.size())),
          u(v + padded_batch(rows<In>)),
          sigma(u + padded_batch(columns<In>)) {}
  };

  /// The variables, with the divided kernel.
  template <class In, class T>
  struct Weights {
    std::array<std::span<T>, detail::variables_of<L, In>().size()> slices;
    Weights(Slices<T> all, const Arrays<In, T>& arrays) {
      std::ranges::copy(all, slices.begin());
      slices[0] = {arrays.kernel, all[0].size()};
    }
  };

  template <class In, class T, class F>
  static void run_backward(const BackwardPass<T>& pass, const F& run) {
    const Arrays<In, T> arrays(pass);
    Weights<In, T> weights(pass.weights, arrays);
    StepContext context = pass.context;
    context.gradients_ready = context.variables_done = {};
    run({.context = context,
         .weights = weights.slices,
         .state = pass.state.subspan(1),
         .x = pass.x,
         .y = pass.y,
         .dy = pass.dy,
         .dx = pass.dx,
         .gradients = pass.gradients,
         .scratch = pass.scratch.first(arrays.own),
         .temporary = pass.temporary});
    // Of W / (v' W u): (G - (G . W / sigma) v u') / sigma.
    T* const gradient = pass.gradients[0].data();
    double along = 0;
    for (std::size_t i = 0; i < pass.gradients[0].size(); ++i)
      along += static_cast<double>(gradient[i]) * static_cast<double>(arrays.kernel[i]);
    for (std::size_t r = 0, i = 0; r < rows<In>; ++r)
      for (std::size_t c = 0; c < columns<In>; ++c, ++i)
        gradient[i] =
            (gradient[i] - static_cast<T>(along) * arrays.v[r] * arrays.u[c]) / *arrays.sigma;
  }
};

}}  // namespace lockstep
