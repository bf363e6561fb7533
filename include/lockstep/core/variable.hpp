// Variables of layers: name, shape, initial values, penalty, constraint.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Values are made zero where they are negative, or scaled so that norms lie within bounds.
///
/// A norm is the root of the sum of squares over `axes` dimensions from number `axis` on: for each
/// index of the other dimensions there is one. (Keras's axis=0 is the default, its axis=[0, 1, 2],
/// for kernels of Conv2D, is .axes = 3.)
///
///   desired = rate * clip(norm, minimum, maximum) + (1 - rate) * norm
///   v *= desired / (1e-7 + norm)
struct Constraint {
  enum class Kind : unsigned char { none, non_negative, norm };

  Kind kind = Kind::none;
  double minimum = 0;
  double maximum = std::numeric_limits<double>::max();
  double rate = 1;
  std::size_t axis = 0;
  std::size_t axes = 1;

  friend constexpr bool operator==(const Constraint&, const Constraint&) = default;
};

// By Keras's names, with its defaults. For options of layers:
// `DenseOptions{.kernel_constraint = MaxNorm{3}}`.

struct NonNeg {
  constexpr operator Constraint() const { return {.kind = Constraint::Kind::non_negative}; }
};

/// Norms are at most max_value.
struct MaxNorm {
  double max_value = 2;
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm, .maximum = max_value, .axis = axis, .axes = axes};
  }
};

/// Norms are 1.
struct UnitNorm {
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm, .minimum = 1, .maximum = 1, .axis = axis, .axes = axes};
  }
};

/// Norms are brought between the two bounds, by a part of the way.
struct MinMaxNorm {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;  ///< that part, in (0, 1]
  std::size_t axis = 0;
  std::size_t axes = 1;
  constexpr operator Constraint() const {
    return {.kind = Constraint::Kind::norm,
            .minimum = min_value,
            .maximum = max_value,
            .rate = rate,
            .axis = axis,
            .axes = axes};
  }
};

/// l1 * (sum of |v|) + l2 * (sum of v^2), as in Keras. That of a variable is added to the mean loss
/// of each batch, and to what evaluate reports; its gradient to the mean gradient, before clipping.
/// It counts once, however many replicas there are. Both numbers are at least 0.
struct Regularizer {
  double l1 = 0;
  double l2 = 0;

  [[nodiscard]] constexpr bool is_none() const noexcept { return l1 == 0 && l2 == 0; }
  friend constexpr bool operator==(const Regularizer&, const Regularizer&) = default;
};

// By Keras's names, with its defaults. For options of layers:
// `DenseOptions{.kernel_regularizer = L2{1e-4}}`.

struct L1 {
  double l1 = 0.01;
  constexpr operator Regularizer() const { return {.l1 = l1}; }
};

struct L2 {
  double l2 = 0.01;
  constexpr operator Regularizer() const { return {.l2 = l2}; }
};

using L1L2 = Regularizer;

/// Number of inputs and outputs of one unit, as the glorot and he initialisers use them (for a
/// convolution, times the receptive field).
struct Fans {
  std::size_t in = 1;
  std::size_t out = 1;
};

/// An array that is to be filled.
struct InitialArray {
  std::span<const std::size_t> shape;
  Fans fans{};
  std::span<double> values;  ///< row-major
};

/// The numbers that an initialiser is told; what they mean is its affair.
struct InitializerNumbers {
  double first = 0;
  double second = 0;
  friend constexpr bool operator==(const InitializerNumbers&, const InitializerNumbers&) = default;
};

/// How an initialiser with numbers works: it draws elements, which may be uniform between two
/// limits, or fills an array at once. Its name tells it from others in the signature of a model.
struct InitializerMethod {
  double (*draw)(RandomStream&, Fans, InitializerNumbers) = nullptr;
  void (*fill)(RandomStream&, const InitialArray&, InitializerNumbers) = nullptr;
  InitializerNumbers (*limits)(Fans, InitializerNumbers) = nullptr;
  std::string_view name = "method";
};

/// Gives the initial values of a variable: a function that draws an element, which is what a user's
/// own initialiser mostly is, or a method and its numbers. None gives zeros.
/// @code
/// constexpr lockstep::Initializer small = [](lockstep::RandomStream& random, lockstep::Fans) {
///   return random.uniform(-0.01, 0.01);
/// };
/// @endcode
class Initializer {
 public:
  using Function = double (*)(RandomStream&, Fans);

  constexpr Initializer() = default;
  template <std::convertible_to<Function> F>
  constexpr Initializer(F function)
      : function_(function), name_(std::is_null_pointer_v<F> ? "none" : "function") {}
  constexpr Initializer(const InitializerMethod& method, InitializerNumbers numbers)
      : method_(&method), numbers_(numbers), name_(method.name) {}

  /// May be null.
  [[nodiscard]] constexpr const InitializerMethod* method() const noexcept { return method_; }
  [[nodiscard]] constexpr InitializerNumbers numbers() const noexcept { return numbers_; }
  /// The method's name; "function" for any function.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

  /// The limits, if the elements are uniform between two; else nothing.
  [[nodiscard]] std::optional<InitializerNumbers> uniform_limits(Fans fans) const {
    if (method_ == nullptr || method_->limits == nullptr) return std::nullopt;
    return method_->limits(fans, numbers_);
  }

  /// An element. (Not of a method that fills arrays at once.)
  [[nodiscard]] double operator()(RandomStream& random, Fans fans) const {
    if (const auto limits = uniform_limits(fans))
      return random.uniform(limits->first, limits->second);
    if (method_ != nullptr) return method_->draw(random, fans, numbers_);
    return function_ != nullptr ? function_(random, fans) : 0.0;
  }

  /// All elements of an array, row-major. Throws ConfigurationError if the method does not take an
  /// array of this shape.
  template <class T>
  void fill(RandomStream& random, std::span<const std::size_t> shape, Fans fans,
            std::span<T> values) const {
    if (method_ == nullptr || method_->fill == nullptr) {
      for (T& value : values) value = static_cast<T>((*this)(random, fans));
      return;
    }
    std::vector<double> all(values.size());
    method_->fill(random, {shape, fans, all}, numbers_);
    for (std::size_t i = 0; i < all.size(); ++i) values[i] = static_cast<T>(all[i]);
  }

  friend constexpr bool operator==(const Initializer&, const Initializer&) = default;

 private:
  Function function_ = nullptr;
  const InitializerMethod* method_ = nullptr;
  InitializerNumbers numbers_{};
  std::string_view name_ = "none";
};

/// One array of a layer, in canonical layout: row-major, the last extent fastest, Keras's order of
/// dimensions (Dense: inputs x units; Conv2D: height x width x input channels x filters).
struct Variable {
  static constexpr std::size_t max_rank = 6;

  std::string_view name;  ///< Keras's name: "kernel", "bias", ...
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> extents{};
  Initializer initializer{};
  Fans fans{};
  bool is_constant =
      false;  ///< of a state variable: no step changes it, so that it is never reduced
  Regularizer regularizer{};  ///< of a trained variable
  Constraint constraint{};    ///< of a trained variable
  /// The units of a kernel [inputs x units] that the layer's forward only gives to
  /// kernels::dense_forward and few_forward, so that it may be int8 in inference. 0: forward reads
  /// floats.
  std::size_t product_units = 0;
  /// The kernel is [units x inputs], and forward looks rows of it up, too, by
  /// kernels::gather_rows: an embedding's table.
  bool is_table = false;

  constexpr Variable() = default;
  constexpr Variable(std::string_view variable_name, std::initializer_list<std::size_t> shape,
                     Initializer init, Fans variable_fans = {})
      : name(variable_name), rank(shape.size()), initializer(init), fans(variable_fans) {
    std::size_t i = 0;
    for (const std::size_t extent : shape) extents[i++] = extent;
  }

  /// The same variable with what a layer's options ask for.
  [[nodiscard]] constexpr Variable with(const Regularizer& penalty,
                                        const Constraint& limits = {}) const {
    Variable variable = *this;
    variable.regularizer = penalty;
    variable.constraint = limits;
    return variable;
  }

  /// The same variable, as a kernel of `units` units that only products read.
  [[nodiscard]] constexpr Variable for_products(std::size_t units) const {
    Variable variable = *this;
    variable.product_units = units;
    return variable;
  }

  /// The same variable, whose rows are looked up, and are the units of a product.
  [[nodiscard]] constexpr Variable as_table() const {
    Variable variable = for_products(extents[0]);
    variable.is_table = true;
    return variable;
  }

  [[nodiscard]] constexpr std::span<const std::size_t> shape() const noexcept {
    return {extents.data(), rank};
  }

  /// Number of elements.
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n *= extents[i];
    return n;
  }
};

}}  // namespace lockstep
