// The header of NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// What stands before the elements: mark, version, the size of a dictionary, and that, a Python
/// literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Versions 1 to 3.
class NpyHeader {
 public:
  /// Reads what `npy` begins with. Throws DataError, beginning with `caller`, also for a structured
  /// array.
  NpyHeader(std::string caller, std::span<const std::byte> npy);

  /// The type of the elements in NumPy's words, '<f4'.
  [[nodiscard]] const std::string& descr() const noexcept { return descr_; }
  /// Whether the first extent is the fastest.
  [[nodiscard]] bool fortran_order() const noexcept { return fortran_order_; }
  [[nodiscard]] const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }
  /// Where the elements begin.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  [[noreturn]] void refuse(std::string_view why = "the header is no .npy header") const;
  void skip_space();
  bool accept(char c);
  void expect(char c);
  std::string_view quoted();
  [[noreturn]] void refuse_structured() const;
  bool truth();
  void tuple();

  std::string caller_;
  std::string_view rest_;  ///< of the dictionary, while it is read
  std::string descr_;
  bool fortran_order_ = false;
  std::vector<std::uint64_t> shape_;
  std::size_t size_ = 0;
};

/// A type of NumPy's with its name in words: "'|i1' (int8)", "'>f4' (float32, big-endian)".
[[nodiscard, gnu::cold]] std::string npy_type_text(std::string_view descr);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/npy_header.ipp"
#endif
