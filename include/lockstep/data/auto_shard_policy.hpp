// How a dataset is divided among workers.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// TensorFlow's tf.data.experimental.AutoShardPolicy.
enum class AutoShardPolicy {
  automatic,  ///< file where there are at least as many files as workers, else data
  data,       ///< every rank runs the whole pipeline and takes its part of each global batch
  file,       ///< every worker reads files of its own and opens no others
  off,        ///< every worker sees every sample of its own dataset; data are not compared
};

[[nodiscard]] constexpr std::string_view to_string(AutoShardPolicy policy) noexcept {
  switch (policy) {
    case AutoShardPolicy::automatic:
      return "automatic";
    case AutoShardPolicy::data:
      return "data";
    case AutoShardPolicy::file:
      return "file";
    case AutoShardPolicy::off:
      return "off";
  }
  return "unknown";
}

}  // namespace lockstep::inline LOCKSTEP_ABI
