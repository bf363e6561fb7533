// Numbers rounded to bfloat16 or float16, and products of them.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/product.hpp"

// A bfloat16 is the upper half of a float (core/half.hpp). Arrays stay float here; what is rounded
// is their values, to the nearest, ties to even.
//
// A product takes its operands rounded, and adds up in float: for each pair of summands the second
// of them first, as VDPBF16PS does. Where there is no such instruction (InstructionSet below
// avx512_bf16), the kernels of float do the same: bits then differ only where a number is below
// 2^-126, which the instruction takes for zero. (Products of two are exact in float, so that it
// makes no difference whether an addition is fused with them.)
//
// A float16 is IEEE 754's binary16: more precise, infinite from 65520 on, and in steps of 2^-24
// below 2^-14. Products are those of float, of rounded operands in the same order.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to = from, rounded. Both may be one array; NaN stays NaN.
void round_to_bfloat16(std::size_t n, const float* from, float* to);

/// to = from, rounded and in 16 bits each, and back; n is a multiple of 16. `to`, or `from`, has
/// n / 2 floats.
void pack_bfloat16(std::size_t n, const float* from, float* to);
void unpack_bfloat16(std::size_t n, const float* from, float* to);

/// multiply_blocks of rounded operands.
void multiply_bfloat16(const Target<float>& target, const float* a, const float* b,
                       std::size_t inner, const Steps& steps, const Onto<float>& onto,
                       Finish<float> finish);

/// The same with float16.
void round_to_float16(std::size_t n, const float* from, float* to);
void pack_float16(std::size_t n, const float* from, float* to);
void unpack_float16(std::size_t n, const float* from, float* to);
void multiply_float16(const Target<float>& target, const float* a, const float* b,
                      std::size_t inner, const Steps& steps, const Onto<float>& onto,
                      Finish<float> finish);

/// While it lives, multiply_blocks and multiply_parts of float on this thread are this function.
template <ProductFunction<float> Function>
class ProductsBy {
 public:
  ProductsBy() noexcept : before_(product_instead<float>) { product_instead<float> = Function; }
  ~ProductsBy() { product_instead<float> = before_; }
  ProductsBy(const ProductsBy&) = delete;
  ProductsBy& operator=(const ProductsBy&) = delete;

 private:
  ProductFunction<float> before_;
};

/// They take their operands rounded.
using BFloat16Products = ProductsBy<multiply_bfloat16>;
using Float16Products = ProductsBy<multiply_float16>;
/// They do not, whatever is around it.
using Float32Products = ProductsBy<nullptr>;

}}}  // namespace lockstep::kernels

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/kernels/bfloat16.ipp"
#endif
