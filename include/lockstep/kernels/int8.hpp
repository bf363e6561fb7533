// Kernels of dense layers and tables of embeddings rounded to 8 bits, and products with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/embedding.hpp"
#include "lockstep/kernels/other_weights.hpp"

// A unit's weights are whole numbers from -127 to 127 times a scale, the unit's largest weight /
// 127. A product rounds each row of x in the same way, with the row's largest number. Sums of whole
// numbers are exact, and no instruction used here saturates: so all instruction sets (AVX-512 with
// VNNI, AVX2, and plain loops for others) give the same bits, and a row's bits do not depend on the
// other rows. A number that is not finite makes all outputs of its row, or of its unit, NaN.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Whether a kernel of so many inputs gains from 8 bits, and its sums fit in 32 bits.
[[nodiscard]] constexpr bool fits_int8(std::size_t inputs) {
  return inputs >= 32 && inputs <= std::size_t{1} << 17;
}

/// Where a rounded kernel [inputs x units] lies in its memory, aligned to 64 bytes.
class Int8Kernel {
 public:
  /// Inputs and units are padded with zeros to multiples of these.
  static constexpr std::size_t input_multiple = 32, unit_multiple = 16;
  [[nodiscard]] static constexpr std::size_t rounded(std::size_t size, std::size_t multiple) {
    return (size + multiple - 1) / multiple * multiple;
  }
  /// A multiple of 64.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t inputs, std::size_t units) {
    return rounded(units, unit_multiple) *
           (rounded(inputs, input_multiple) + sizeof(float) + sizeof(std::int32_t));
  }

  Int8Kernel(std::size_t inputs, std::size_t units, std::byte* memory)
      : inputs_(rounded(inputs, input_multiple)),
        units_(rounded(units, unit_multiple)),
        memory_(memory) {}

  [[nodiscard]] std::size_t inputs() const noexcept { return inputs_; }
  [[nodiscard]] float* scales() const noexcept { return reinterpret_cast<float*>(memory_); }
  /// The sum of each unit's numbers.
  [[nodiscard]] std::int32_t* sums() const noexcept {
    return reinterpret_cast<std::int32_t*>(scales() + units_);
  }
  /// [unit][input]
  [[nodiscard]] std::int8_t* numbers() const noexcept {
    return reinterpret_cast<std::int8_t*>(sums() + units_);
  }

 private:
  std::size_t inputs_, units_;
  std::byte* memory_;
};

/// Writes all of `to`, from weights [inputs x units], or [units x inputs] of a table.
void quantize_int8(std::size_t inputs, std::size_t units, const float* weights,
                   const Int8Kernel& to, bool is_table = false);

/// Multiplies by weights that are the memory of an Int8Kernel. Keeps memory for the thread's next
/// call.
void multiply_int8(const AnyDense<float>& dense);

/// Looks rows up in a table that is the memory of an Int8Kernel: numbers times their scale.
void gather_int8(const GatherRows<float>& rows);

/// The way of computing that multiply_int8 takes on this machine, by the instruction set in force.
enum class Int8Way : unsigned char { plain, avx2, vnni };
[[nodiscard]] Int8Way int8_way();

}}}  // namespace lockstep::kernels

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/kernels/int8.ipp"
#endif
