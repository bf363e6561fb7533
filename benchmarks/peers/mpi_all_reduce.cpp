// All-reduces of float32 sums by an MPI library.
//
// mpirun -n N ... benchmark_openmpi --policy NAME --ranks N --bytes B... [--repetitions N] output:
// see ../all_reduce_timing.hpp
//
// What is measured under NAME is for mpirun's options to say.

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>

#include "../all_reduce_timing.hpp"
#include "lockstep/core/buffer.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const auto options = benchmarks::TimingOptions::parse(argc, argv);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != options.ranks) throw std::invalid_argument("mpirun's -n differs from --ranks");
    for (const std::size_t bytes : options.bytes) {
      const lockstep::Buffer buffer(bytes);
      const std::span values(reinterpret_cast<float*>(buffer.data()), bytes / sizeof(float));
      const int count = static_cast<int>(values.size());
      benchmarks::time_all_reduce(
          options, rank, values, [] { MPI_Barrier(MPI_COMM_WORLD); },
          [&] {
            MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
          });
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_all_reduce: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
}
