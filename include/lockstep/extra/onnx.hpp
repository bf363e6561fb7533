// ONNX: export_onnx.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/onnx/export_onnx.hpp"
