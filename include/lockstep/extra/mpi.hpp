// Mpi and mpi_cluster, where the program links MPI.
#pragma once

#include "lockstep/core/config.hpp"  // first: see there

#include "lockstep/extra/mpi/mpi.hpp"
#include "lockstep/extra/mpi/mpi_cluster.hpp"
