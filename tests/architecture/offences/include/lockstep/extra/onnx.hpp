#pragma once

#include "lockstep/core/config.hpp"
