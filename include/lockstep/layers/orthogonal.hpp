// Random orthogonal matrices, as initial values.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/initializer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/layers/orthogonal.ipp"
#endif
