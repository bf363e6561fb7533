#pragma once

#include <Eigen/Core>
#include <unistd.h>

#include "dense.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/absent.hpp"
