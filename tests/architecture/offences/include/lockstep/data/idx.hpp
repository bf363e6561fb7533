#pragma once

#include <unistd.h>
#include <zlib.h>
#include <boost/asio.hpp>

#include "lockstep/core/shape.hpp"
#include "lockstep/lockstep.hpp"
