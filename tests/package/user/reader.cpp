// What lockstep::images, lockstep::hdf5, lockstep::mpi and lockstep::nccl add.

#include <cstdlib>

#include <lockstep/checkpoint/weights_file.hpp>
#include <lockstep/datasets/image_folder.hpp>
#include <lockstep/extra/mpi/mpi.hpp>
#include <lockstep/extra/nccl.hpp>

int main() {
#if defined(LOCKSTEP_HAS_HDF5)
  if (lockstep::detail::hdf5_codec == nullptr) return EXIT_FAILURE;
#endif
#if defined(LOCKSTEP_HAS_MPI)
  if (!lockstep::mpi_cluster().is_alone()) return EXIT_FAILURE;
#endif
#if defined(LOCKSTEP_HAS_NCCL)
  static_assert(lockstep::CollectivePolicy<lockstep::Nccl>);
#endif
#if defined(LOCKSTEP_HAS_PNG) || defined(LOCKSTEP_HAS_JPEG)
  try {
    static_cast<void>(lockstep::DecodeImage{}({}, "nothing"));
    return EXIT_FAILURE;
  } catch (const lockstep::DataError&) {
  }
#endif
  return EXIT_SUCCESS;
}
