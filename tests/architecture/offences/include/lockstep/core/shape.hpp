#pragma once

#include <asio.hpp>
#include <vector>

#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/detail/inner.hpp"
