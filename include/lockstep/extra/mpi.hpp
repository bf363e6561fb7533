// Mpi and mpi_cluster, in programs that link the CMake target lockstep::mpi; else empty.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/mpi/mpi.hpp"
