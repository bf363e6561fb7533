// TensorView::matrix, in a header for itself: most headers need no Eigen.
#pragma once

#include <Eigen/Core>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

template <class T>
auto TensorView<T>::matrix() const {
  using Matrix = Eigen::Matrix<value_type, Eigen::Dynamic, Eigen::Dynamic>;
  using Map = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>,
                         Eigen::Unaligned, Eigen::OuterStride<>>;
  return Map(data_, static_cast<Eigen::Index>(samples_), static_cast<Eigen::Index>(features_),
             Eigen::OuterStride<>(static_cast<Eigen::Index>(stride_)));
}

}}  // namespace lockstep
