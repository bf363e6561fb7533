// HDF5's own C library, for Keras's .weights.h5 files.
#pragma once

#include "lockstep/checkpoint/detail/hdf5_file.hpp"
#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_HDF5)

#include "lockstep/checkpoint/hdf5.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr Hdf5Codec hdf5_library{&encode_keras_weights, &decode_keras_weights};
inline const bool has_hdf5_library = (hdf5_codec = &hdf5_library) != nullptr;

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
