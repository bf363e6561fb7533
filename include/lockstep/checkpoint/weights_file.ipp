#pragma once

#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/npz.hpp"
#include "lockstep/checkpoint/safetensors.hpp"
#include "lockstep/checkpoint/size_limit.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/utf8.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

template <class From, class To>
std::vector<std::byte> convert_elements(std::span<const std::byte> bytes) {
  std::vector<std::byte> converted(bytes.size() / sizeof(From) * sizeof(To));
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(converted.data() + i * sizeof(To), &to, sizeof(To));
  }
  return converted;
}

LOCKSTEP_INLINE void check_names(std::span<const SavedArray> arrays) {
  std::set<std::string_view> names;
  for (const SavedArray& array : arrays) {
    if (!is_utf8(array.name))
      throw DataError(concat({"weights: the name of array ", names.size(), " is no UTF-8"}));
    if (!names.insert(array.name).second)
      throw DataError(
          concat({"weights: two arrays are named '", array.name, "': no program could load them"}));
  }
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::byte> encode_weights(std::string_view path,
                                                      std::vector<SavedArray> arrays) {
  detail::check_names(arrays);
  if (path.ends_with(".safetensors")) return encode_safetensors(arrays);
  if (path.ends_with(".npz")) return encode_npz(arrays);
  TrainingState weights;
  if (!arrays.empty()) weights.scalar = arrays.front().scalar;
  weights.parameters = std::move(arrays);
  return encode_checkpoint(weights);
}

LOCKSTEP_INLINE void save_weights_file(const std::string& path, std::vector<SavedArray> arrays) {
  write_file_atomically(path, encode_weights(path, std::move(arrays)));
}

LOCKSTEP_INLINE HeadCheck weights_check(std::string_view path,
                                        std::optional<std::uint64_t> expected) {
  const bool is_safetensors = path.ends_with(".safetensors");
  if (!is_safetensors && !path.ends_with(".npz")) return checkpoint_check(expected);
  return [is_safetensors, expected](std::span<const std::byte> head, std::uint64_t size) {
    is_safetensors ? detail::check_safetensors_head(head, size)
                   : detail::check_npz_head(head, size);
    at_most(detail::size_limit(expected), "weights for this model")(head, size);
  };
}

LOCKSTEP_INLINE std::vector<SavedArray> decode_weights(std::string_view path,
                                                       std::span<const std::byte> bytes,
                                                       std::optional<std::uint64_t> expected) {
  if (path.ends_with(".safetensors")) return decode_safetensors(bytes);
  if (path.ends_with(".npz")) return decode_npz_at_most(detail::size_limit(expected), bytes);
  TrainingState saved = decode_checkpoint(bytes);
  std::move(saved.state.begin(), saved.state.end(), std::back_inserter(saved.parameters));
  return std::move(saved.parameters);
}

LOCKSTEP_INLINE void refuse_weights_format(std::string_view caller, std::string_view path) {
  if (path.ends_with(".safetensors") || path.ends_with(".npz"))
    throw ConfigurationError(
        concat({caller, ": '", path, "': .safetensors and .npz have weights alone: choose another ",
                "extension for the whole training state, or save the weights only"}));
}

LOCKSTEP_INLINE SavedArray convert_array(SavedArray array, std::string_view scalar) {
  const std::size_t size = detail::scalar_size(array.scalar);
  if (detail::scalar_size(scalar) != size) {
    array.bytes = size == sizeof(float) ? detail::convert_elements<float, double>(array.bytes)
                                        : detail::convert_elements<double, float>(array.bytes);
    array.scalar = scalar;
  }
  return array;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
