// Samples with noise.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: adds a normal number of this standard deviation to each element (what the
/// layer GaussianNoise does in training, done while data are read). Throws ConfigurationError, when
/// the first sample is read, for a stddev below 0. What is drawn depends on seed, pass and sample,
/// not on the number of workers and replicas.
struct RandomNoise {
  double stddev = 0;

  [[nodiscard]] std::string description() const {
    return concat({"RandomNoise(stddev=", stddev, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    if (!(stddev >= 0))
      throw ConfigurationError(concat({"RandomNoise: stddev must be at least 0, got ", stddev}));
    RandomStream random(sample.key);
    for (T& value : sample.x) value += static_cast<T>(stddev * random.normal());
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
