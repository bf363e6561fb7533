// Initial values of variables.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Columns of `length` elements, one after the other.
class Columns {
 public:
  Columns(std::size_t length, std::size_t count) : length_(length), values_(length * count) {}
  [[nodiscard]] double* operator[](std::size_t column) noexcept {
    return values_.data() + column * length_;
  }

 private:
  std::size_t length_;
  std::vector<double> values_;
};

/// x -= 2 (v . x) / (v . v) * v, for n elements.
void reflect(std::size_t n, const double* v, double* x);

/// `count` orthonormal columns of `length` elements, uniform among all such: the Q of a matrix of
/// normal numbers whose R has a positive diagonal, by Householder's reflections. length >= count.
Columns orthonormal_columns(RandomStream& random, std::size_t length, std::size_t count);

/// Fills an array whose last dimension counts columns and all others together rows: a matrix with
/// orthonormal columns, or rows if there are fewer of them, times `gain`.
void fill_orthogonal(RandomStream& random, const InitialArray& array, InitializerNumbers gain);

}  // namespace detail

/// An initialiser among a layer's options: one of those below with its numbers, such as
/// `RandomNormal{.stddev = 0.02}`, or a constant of type Initializer: glorot_uniform, your own.
/// @code
/// constexpr lockstep::Initializer small = [](lockstep::RandomStream& random, lockstep::Fans) {
///   return random.uniform(-0.01, 0.01);  // at namespace scope
/// };
/// using Layer = lockstep::Dense<10, lockstep::Linear,
///                               lockstep::DenseOptions{.kernel_initializer = small}>;
/// @endcode
/// (It holds the constant's address, as g++ 12 takes no function among such options.)
struct InitializerOption {
  const Initializer* constant = nullptr;  ///< null: `method` counts
  const InitializerMethod* method = nullptr;
  double first = 0;
  double second = 0;
  bool has_method = false;  ///< (g++'s sanitizers take no comparison with null for a constant)

  constexpr InitializerOption(const Initializer& initializer) : constant(&initializer) {}
  InitializerOption(const Initializer&&) = delete;  ///< a function by itself: make it a constant
  template <std::convertible_to<Initializer> Numbers>
    requires std::is_aggregate_v<Numbers>
  constexpr InitializerOption(const Numbers& numbers) {
    const Initializer initializer = numbers;
    method = initializer.method();
    has_method = true;
    first = initializer.numbers().first;
    second = initializer.numbers().second;
  }

  constexpr operator Initializer() const {
    return has_method ? Initializer(*method, {first, second}) : *constant;
  }
};

/// What a unit's number of inputs and outputs makes of the deviation in VarianceScaling.
enum class FanMode { fan_in, fan_out, fan_avg };
enum class Distribution { truncated_normal, untruncated_normal, uniform };

namespace detail {

/// Normal with mean 0 and deviation 1, drawn again beyond 2.
double truncated_normal(RandomStream& random);

template <FanMode Mode>
double fan(Fans fans) {
  const double in = static_cast<double>(fans.in), out = static_cast<double>(fans.out);
  return std::max(1.0, Mode == FanMode::fan_in    ? in
                       : Mode == FanMode::fan_out ? out
                                                  : (in + out) / 2.0);
}

inline constexpr InitializerMethod uniform{
    .limits = [](Fans, InitializerNumbers limits) { return limits; }, .name = "uniform"};
inline constexpr InitializerMethod normal{
    .draw =
        [](RandomStream& random, Fans, InitializerNumbers moments) {
          return moments.first + moments.second * random.normal();
        },
    .name = "normal"};
inline constexpr InitializerMethod cut_normal{
    .draw =
        [](RandomStream& random, Fans, InitializerNumbers moments) {
          return moments.first + moments.second * truncated_normal(random);
        },
    .name = "truncated_normal"};
inline constexpr InitializerMethod constant{
    .draw = [](RandomStream&, Fans, InitializerNumbers value) { return value.first; },
    .name = "constant"};

template <FanMode Mode, Distribution From>
inline constexpr InitializerMethod scaled{
    .draw =
        [](RandomStream& random, Fans fans, InitializerNumbers scale) {
          const double deviation = std::sqrt(scale.first / fan<Mode>(fans));
          constexpr double left_by_cut =
              0.87962566103423978;  // of the deviation, by a cut at -2 and 2
          return From == Distribution::truncated_normal
                     ? truncated_normal(random) * deviation / left_by_cut
                     : random.normal() * deviation;
        },
    .name = "variance_scaling"};
template <FanMode Mode>
inline constexpr InitializerMethod scaled<Mode, Distribution::uniform>{
    .limits =
        [](Fans fans, InitializerNumbers scale) {
          const double limit = std::sqrt(3.0 * scale.first / fan<Mode>(fans));
          return InitializerNumbers{-limit, limit};
        },
    .name = "variance_scaling"};

template <FanMode Mode>
constexpr const InitializerMethod& scaled_of(Distribution from) {
  switch (from) {
    case Distribution::truncated_normal:
      return scaled<Mode, Distribution::truncated_normal>;
    case Distribution::untruncated_normal:
      return scaled<Mode, Distribution::untruncated_normal>;
    case Distribution::uniform:
      break;
  }
  return scaled<Mode, Distribution::uniform>;
}

void fill_identity(RandomStream&, const InitialArray& array, InitializerNumbers gain);

inline constexpr InitializerMethod identity{.fill = fill_identity, .name = "identity"};
inline constexpr InitializerMethod orthogonal{.fill = fill_orthogonal, .name = "orthogonal"};

}  // namespace detail

/// Uniform in [minval, maxval).
struct RandomUniform {
  double minval = -0.05;
  double maxval = 0.05;
  constexpr operator Initializer() const { return {detail::uniform, {minval, maxval}}; }
};

struct RandomNormal {
  double mean = 0;
  double stddev = 0.05;
  constexpr operator Initializer() const { return {detail::normal, {mean, stddev}}; }
};

/// Normal, drawn again where it is more than two `stddev` from the mean.
struct TruncatedNormal {
  double mean = 0;
  double stddev = 0.05;
  constexpr operator Initializer() const { return {detail::cut_normal, {mean, stddev}}; }
};

struct Constant {
  double value = 0;
  constexpr operator Initializer() const { return {detail::constant, {value}}; }
};

/// Variance scale / max(1, n), with n the fan of `mode`. uniform: within +-sqrt(3 scale / n).
/// untruncated_normal: standard deviation sqrt(scale / n). truncated_normal: the same after the cut
/// at two standard deviations of the distribution that is cut.
struct VarianceScaling {
  double scale = 1;
  FanMode mode = FanMode::fan_in;
  Distribution distribution = Distribution::truncated_normal;

  constexpr operator Initializer() const {
    // The second number tells methods of one name apart.
    const InitializerNumbers numbers{
        scale, 3.0 * static_cast<double>(mode) + static_cast<double>(distribution)};
    switch (mode) {
      case FanMode::fan_in:
        return {detail::scaled_of<FanMode::fan_in>(distribution), numbers};
      case FanMode::fan_out:
        return {detail::scaled_of<FanMode::fan_out>(distribution), numbers};
      case FanMode::fan_avg:
        break;
    }
    return {detail::scaled_of<FanMode::fan_avg>(distribution), numbers};
  }
};

/// `gain` on the diagonal, else 0; for variables of two dimensions.
struct IdentityMatrix {
  double gain = 1;
  constexpr operator Initializer() const { return {detail::identity, {gain}}; }
};

/// A matrix with orthonormal columns, or rows if these are fewer, times `gain`: the last dimension
/// counts columns, the others together rows. Saxe, McClelland, Ganguli, "Exact solutions to the
/// nonlinear dynamics of learning in deep linear neural networks", ICLR 2014. Keras's default for
/// recurrent kernels.
struct Orthogonal {
  double gain = 1;
  constexpr operator Initializer() const { return {detail::orthogonal, {gain}}; }
};

inline constexpr Initializer zeros = Constant{0};
inline constexpr Initializer ones = Constant{1};
inline constexpr Initializer random_uniform = RandomUniform{};
inline constexpr Initializer random_normal = RandomNormal{};
inline constexpr Initializer truncated_normal = TruncatedNormal{};
inline constexpr Initializer identity = IdentityMatrix{};
inline constexpr Initializer orthogonal = Orthogonal{};

/// Uniform within +-sqrt(6 / (fan_in + fan_out)). Glorot, Bengio, "Understanding the difficulty of
/// training deep feedforward neural networks", AISTATS 2010. Keras's default for kernels.
inline constexpr Initializer glorot_uniform =
    VarianceScaling{.mode = FanMode::fan_avg, .distribution = Distribution::uniform};

/// Truncated normal with standard deviation sqrt(2 / (fan_in + fan_out)).
inline constexpr Initializer glorot_normal = VarianceScaling{.mode = FanMode::fan_avg};

/// Uniform within +-sqrt(6 / fan_in). He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV
/// 2015. For ReLU.
inline constexpr Initializer he_uniform =
    VarianceScaling{.scale = 2, .distribution = Distribution::uniform};

/// Truncated normal with standard deviation sqrt(2 / fan_in).
inline constexpr Initializer he_normal = VarianceScaling{.scale = 2};

/// Uniform within +-sqrt(3 / fan_in). LeCun, Bottou, Orr, Mueller, "Efficient BackProp", 1998.
inline constexpr Initializer lecun_uniform = VarianceScaling{.distribution = Distribution::uniform};

/// Truncated normal with standard deviation sqrt(1 / fan_in). For SELU.
inline constexpr Initializer lecun_normal = VarianceScaling{};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/layers/initializers.ipp"
#endif
