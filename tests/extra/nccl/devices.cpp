// Nccl with the real libraries, on as many ranks as there are devices.
#include <doctest/doctest.h>

#include "extra/nccl/device_arrays.hpp"
#include "support/skip.hpp"

namespace lockstep_test {

TEST_CASE("nccl: every operation on the devices of this machine") {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return skip("nccl: every operation on the devices of this machine", "an NVIDIA GPU");
  for (int ranks = 1; ranks <= std::min(devices, 8); ++ranks) every_operation_on_devices(ranks);
}

}  // namespace lockstep_test
