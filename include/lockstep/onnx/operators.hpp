// What each layer is in ONNX: all that export_onnx knows.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/onnx/detail/activation_operators.hpp"
#include "lockstep/onnx/detail/attention_operators.hpp"
#include "lockstep/onnx/detail/container_operators.hpp"
#include "lockstep/onnx/detail/flat_operators.hpp"
#include "lockstep/onnx/detail/image_operators.hpp"
#include "lockstep/onnx/detail/operator.hpp"
#include "lockstep/onnx/detail/sequence_operators.hpp"
