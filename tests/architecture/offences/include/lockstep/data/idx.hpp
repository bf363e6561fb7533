#pragma once

#include <boost/asio.hpp>
#include <unistd.h>
#include <zlib.h>

#include "lockstep/core/shape.hpp"
#include "lockstep/lockstep.hpp"
