// libFuzzer: any bytes are refused by a DataError, or read as an Example without touching others.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/error.hpp"
#include "lockstep/extra/records/example.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lockstep::ExampleView example(std::as_bytes(std::span(data, size)));
    for (const lockstep::FeatureView& feature : example.features()) {
      double numbers[2];
      if (feature.kind() == lockstep::FeatureKind::bytes) (void)feature.bytes();
      if (feature.kind() == lockstep::FeatureKind::floats) (void)feature.floats();
      if (feature.kind() == lockstep::FeatureKind::ints) (void)feature.ints();
      feature.read(numbers);
    }
  } catch (const lockstep::DataError&) {
  }
  return 0;
}
