#pragma once

#include "lockstep/data/idx.hpp"
#include "lockstep/layers/dense.hpp"
