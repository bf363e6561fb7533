// Numbers rounded to bfloat16 or float16, and products of them.
#pragma once

#include <cstddef>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dense.hpp"
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

/// The gradients of a dense layer, where the instruction has its operands packed as they are
/// transposed; null: where there is none, which gives the same bits.
[[nodiscard]] const DenseGradients<float>* bfloat16_dense_gradients();

/// While it lives, multiply_blocks, multiply_parts and the gradients of dense layers of float on
/// this thread do what they are given; nothing: what they do by themselves.
class ProductsInstead {
 public:
  ProductsInstead(ProductFunction<float> products, const DenseGradients<float>* gradients) noexcept
      : products_(std::exchange(product_instead<float>, products)),
        gradients_(std::exchange(dense_gradients_instead<float>, gradients)) {}
  ~ProductsInstead() {
    product_instead<float> = products_;
    dense_gradients_instead<float> = gradients_;
  }
  ProductsInstead(const ProductsInstead&) = delete;
  ProductsInstead& operator=(const ProductsInstead&) = delete;

 private:
  ProductFunction<float> products_;
  const DenseGradients<float>* gradients_;
};

/// They take their operands rounded.
struct BFloat16Products : ProductsInstead {
  BFloat16Products() : ProductsInstead(multiply_bfloat16, bfloat16_dense_gradients()) {}
};
struct Float16Products : ProductsInstead {
  Float16Products() noexcept : ProductsInstead(multiply_float16, nullptr) {}
};
/// They do not, whatever is around it.
struct Float32Products : ProductsInstead {
  Float32Products() noexcept : ProductsInstead(nullptr, nullptr) {}
};

}}}  // namespace lockstep::kernels

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/kernels/bfloat16.ipp"
#endif
