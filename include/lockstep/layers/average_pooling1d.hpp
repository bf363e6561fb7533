// AveragePooling1D: the mean of each window of positions.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The mean of each window of positions, for each feature of a Sequence<T, features>; what lies
/// beyond the sequence does not count. The mask ends here.
template <std::size_t Pool = 2, Pooling1DOptions Options = Pooling1DOptions{}>
struct AveragePooling1D : detail::Pooling1D<Pool, Options, detail::AverageOperation> {
  static constexpr std::string_view name = "average_pooling1d";
  static constexpr std::string_view class_name = "AveragePooling1D";
};

}  // namespace lockstep::inline LOCKSTEP_ABI
