// OnnxOperator: what a layer is in ONNX; and the layers that are nothing there.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/core/regularizer.hpp"
#include "lockstep/layers/activity_regularization.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/gaussian_dropout.hpp"
#include "lockstep/layers/gaussian_noise.hpp"
#include "lockstep/layers/identity.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/spatial_dropout1d.hpp"
#include "lockstep/layers/spatial_dropout2d.hpp"
#include "lockstep/onnx/graph.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// write<In>(graph): what a layer does to samples of shape In.
template <class L>
struct OnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {
    static_assert(
        !sizeof(L),
        "lockstep: export_onnx knows no ONNX operator for this layer; see onnx/operators.hpp");
  }
};

/// Layers that do nothing in inference.
struct NoOnnxOperator {
  template <class In>
  static void write(OnnxGraph&) {}
};
template <std::size_t... Extents>
struct OnnxOperator<Input<Extents...>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<Dropout<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<SpatialDropout1D<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<SpatialDropout2D<Rate>> : NoOnnxOperator {};
template <Probability Rate>
struct OnnxOperator<GaussianDropout<Rate>> : NoOnnxOperator {};
template <Number Stddev>
struct OnnxOperator<GaussianNoise<Stddev>> : NoOnnxOperator {};
template <Regularizer Penalty>
struct OnnxOperator<ActivityRegularization<Penalty>> : NoOnnxOperator {};
template <>
struct OnnxOperator<Identity> : NoOnnxOperator {};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
