// Initializer: what a variable begins with.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

/// The numbers that an initialiser is told; what they mean is its own affair.
struct InitializerNumbers {
  double first = 0;
  double second = 0;
  friend constexpr bool operator==(const InitializerNumbers&, const InitializerNumbers&) = default;
};

/// How an initialiser with numbers works: it draws an element, or fills an array at once.
struct InitializerMethod {
  double (*draw)(RandomStream&, Fans, InitializerNumbers) = nullptr;
  void (*fill)(RandomStream&, const InitialArray&, InitializerNumbers) = nullptr;
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
  constexpr Initializer(F function) : function_(function) {}
  constexpr Initializer(const InitializerMethod& method, InitializerNumbers numbers)
      : method_(&method), numbers_(numbers) {}

  /// May be null.
  [[nodiscard]] constexpr const InitializerMethod* method() const noexcept { return method_; }
  [[nodiscard]] constexpr InitializerNumbers numbers() const noexcept { return numbers_; }

  /// An element. (Not of a method that fills arrays at once.)
  [[nodiscard]] double operator()(RandomStream& random, Fans fans) const {
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
};

}  // namespace lockstep::inline LOCKSTEP_ABI
