// Models on a GPU beside the same models on the processor. Skipped where there is none.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "extra/cuda/trains_alike.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/cuda/device.hpp"

using namespace lockstep_test;

TEST_CASE("a model on a GPU trains as on the processor, twice with the same bits") {
  on_device::check_all_train_alike<lockstep::Cuda>([] {});
}

int main(int argc, char** argv) {
  try {
    std::cout << lockstep::Cuda::instance().description() << std::endl;
  } catch (const lockstep::Error& error) {
    std::cout << "skipped: " << error.what() << '\n';
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
