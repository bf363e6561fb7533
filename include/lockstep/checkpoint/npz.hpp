// NumPy's .npz: a zip file with an .npy file for each array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What numpy.load reads; entries are stored, not compressed. Throws DataError when the file would
/// pass 4 GiB or have more than 65,535 arrays (it would need zip64).
[[nodiscard]] std::vector<std::byte> encode_npz(std::span<const SavedArray> arrays);

/// What numpy.savez and, where zlib is there, numpy.savez_compressed wrote. float32 and float64 are
/// taken as they are, float16 becomes float32; arrays in Fortran's order are brought to row-major.
/// Throws DataError, naming the array, for other types, and when the file is incomplete or
/// inconsistent. Verifies zip's checksums, and sizes before memory is allocated.
[[nodiscard]] std::vector<SavedArray> decode_npz(std::span<const std::byte> bytes);

/// The same, but refuses a file whose arrays have more than `most` bytes together.
[[nodiscard]] std::vector<SavedArray> decode_npz_at_most(std::uint64_t most,
                                                         std::span<const std::byte> bytes);

namespace detail {

/// Throws DataError unless a file that begins with `head` and has `size` bytes can be a zip file.
void check_npz_head(std::span<const std::byte> head, std::uint64_t size);

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/npz.ipp"
#endif
