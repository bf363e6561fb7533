#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/core/error.hpp"
#include "lockstep/layers/initializers.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void reflect(std::size_t n, const double* v, double* x) {
  const double square = std::inner_product(v, v + n, v, 0.0);
  if (square == 0) return;
  const double factor = 2 * std::inner_product(v, v + n, x, 0.0) / square;
  for (std::size_t i = 0; i < n; ++i) x[i] -= factor * v[i];
}

LOCKSTEP_INLINE Columns orthonormal_columns(RandomStream& random, std::size_t length,
                                            std::size_t count) {
  Columns a(length, count), q(length, count);
  for (std::size_t row = 0; row < length; ++row)
    for (std::size_t column = 0; column < count; ++column) a[column][row] = random.normal();
  std::vector<double> signs(count);
  for (std::size_t k = 0; k < count; ++k) {
    double* const v = a[k] + k;  // becomes the vector of reflection k
    const double norm = std::sqrt(std::inner_product(v, v + (length - k), v, 0.0));
    signs[k] = v[0] > 0 ? -1 : 1;  // of R's diagonal
    v[0] -= signs[k] * norm;
    for (std::size_t column = k + 1; column < count; ++column)
      reflect(length - k, v, a[column] + k);
  }
  for (std::size_t column = 0; column < count; ++column) {
    q[column][column] = signs[column];
    for (std::size_t k = column + 1; k > 0; --k)
      reflect(length - (k - 1), a[k - 1] + (k - 1), q[column] + (k - 1));
  }
  return q;
}

LOCKSTEP_INLINE void fill_orthogonal(RandomStream& random, const InitialArray& array,
                                     InitializerNumbers gain) {
  if (array.shape.size() < 2)
    throw ConfigurationError(
        concat({"the initialiser orthogonal needs a variable of at least two dimensions, and this "
                "one has ",
                array.shape.size()}));
  const std::size_t columns = array.shape.back();
  const std::size_t rows = columns == 0 ? 0 : array.values.size() / columns;
  Columns q = orthonormal_columns(random, std::max(rows, columns), std::min(rows, columns));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      array.values[row * columns + column] =
          gain.first * (rows < columns ? q[row][column] : q[column][row]);
}

LOCKSTEP_INLINE double truncated_normal(RandomStream& random) {
  double value = random.normal();
  while (std::abs(value) > 2.0) value = random.normal();
  return value;
}

LOCKSTEP_INLINE void fill_identity(RandomStream&, const InitialArray& array,
                                   InitializerNumbers gain) {
  if (array.shape.size() != 2)
    throw ConfigurationError(
        concat({"the initialiser identity needs a variable of two dimensions, and this one has ",
                array.shape.size()}));
  for (std::size_t i = 0; i < std::min(array.shape[0], array.shape[1]); ++i)
    array.values[i * array.shape[1] + i] = gain.first;
}

}}}  // namespace lockstep::detail
