#pragma once

#include <asio.hpp>
#include <vector>

#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/detail/inner.hpp"

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/shape.ipp"
#endif
