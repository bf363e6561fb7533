// Arrays of a model as a checkpoint keeps them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A list of variables, their names, and where the bytes of each are.
struct ArrayList {
  const char* scalar;  ///< "float32" or "float64"
  std::span<const Variable> variables;
  std::vector<std::string> names;
  std::vector<std::span<std::byte>> bytes;
};

template <class T>
ArrayList array_list(std::span<const Variable> variables, std::vector<std::string> names,
                     std::span<const std::span<T>> slices) {
  const char* const scalar = scalar_name<T>();
  ArrayList list{.scalar = scalar, .variables = variables, .names = std::move(names), .bytes = {}};
  for (const std::span<T> slice : slices) list.bytes.push_back(std::as_writable_bytes(slice));
  return list;
}

/// Puts a copy of every array into `saved`, from number `first` on, in the memory of what stood
/// there where that is large enough; `suffix` is added to the names.
void save_arrays(std::vector<SavedArray>& saved, std::size_t first, const ArrayList& list,
                 const std::string& suffix = {});

/// Copies saved arrays, from number `first` on, back. Throws ConfigurationError naming the first
/// array that differs; `check_only` copies nothing.
void load_arrays(const std::vector<SavedArray>& saved, std::size_t first, const ArrayList& list,
                 bool check_only);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/saved_arrays.ipp"
#endif
