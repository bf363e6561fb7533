#pragma once

#include "lockstep/data/idx.hpp"
#include "lockstep/extra/onnx.hpp"
#include "lockstep/layers/dense.hpp"
