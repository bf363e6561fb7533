#pragma once

#include <Eigen/Core>

#include "dense.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/absent.hpp"
