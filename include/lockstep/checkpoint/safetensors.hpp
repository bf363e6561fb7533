// The safetensors format: named arrays that PyTorch, JAX, TensorFlow and NumPy read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A safetensors file: the size of a JSON header, the header (names, dtypes, shapes, offsets), the
/// elements.
[[nodiscard]] std::vector<std::byte> encode_safetensors(std::span<const SavedArray> arrays);

/// The arrays in the order of their elements. F32 and F64 are taken as they are, F16 and BF16
/// become float32. Throws DataError, naming the array, for other dtypes, and when the file is
/// incomplete or inconsistent. Verifies sizes before memory is allocated. The format has no
/// checksum, so a changed element goes unnoticed.
[[nodiscard]] std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes);
/// The same, but arrays of other dtypes are left out.
[[nodiscard]] std::vector<SavedArray> decode_safetensors_numbers(std::span<const std::byte> bytes);

namespace detail {

/// Throws DataError unless a file that begins with `head` and has `size` bytes can be a safetensors
/// file.
void check_safetensors_head(std::span<const std::byte> head, std::uint64_t size);

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/checkpoint/safetensors.ipp"
#endif
