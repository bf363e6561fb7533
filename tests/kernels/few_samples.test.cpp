#include "lockstep/kernels/few_samples.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>

#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::random_array;

namespace {

constexpr std::size_t batch = 16;

/// Samples one after the other, in the layout of a batch.
template <class T>
Array<T> as_batch(const Array<T>& samples, std::size_t count, std::size_t features) {
  Array<T> padded(features * batch, T(0));
  for (std::size_t sample = 0; sample < count; ++sample)
    for (std::size_t f = 0; f < features; ++f)
      padded[f * batch + sample] = samples[sample * features + f];
  return padded;
}

/// Elements of `few` that are not those of `of_batch`. (Here they may differ in the last bits: a
/// test's own copy of a kernel is not optimised. Predictor's test compares bits.)
template <class T>
std::size_t differing(const Array<T>& few, const Array<T>& of_batch, std::size_t count,
                      std::size_t features) {
  std::size_t different = 0;
  for (std::size_t sample = 0; sample < count; ++sample)
    for (std::size_t f = 0; f < features; ++f)
      different += !(std::abs(few[sample * features + f] - of_batch[f * batch + sample]) < T(1e-4));
  return different;
}

template <class T>
void check_dense(std::size_t samples, std::size_t inputs, std::size_t units, bool has_bias,
                 kernels::Finish<T> finish) {
  CAPTURE(samples);
  CAPTURE(inputs);
  CAPTURE(units);
  std::mt19937 random(1);
  const Array<T> x = random_array<T>(samples * inputs, random),
                 weights = random_array<T>(inputs * units, random),
                 bias = random_array<T>(units, random);
  const T* const constants = has_bias ? bias.data() : nullptr;
  const Array<T> few(samples * units, T(7)), of_batch(units * batch);
  kernels::dispatch(kernels::DenseOfFew<T>{samples, inputs, units, x.data(), weights.data(),
                                           constants, few.data(), finish});
  kernels::dense_forward<T>({inputs, units, batch}, as_batch(x, samples, inputs).data(),
                            weights.data(), constants, of_batch.data(), finish);
  CHECK(differing(few, of_batch, samples, units) == 0);
}

template <class T>
void check_convolution(kernels::ConvolutionSize size, std::size_t samples, bool has_bias,
                       kernels::Finish<T> finish) {
  CAPTURE(samples);
  CAPTURE(size.channels);
  CAPTURE(size.filters);
  std::mt19937 random(1);
  const std::size_t inputs = size.rows() * size.width * size.all_channels(),
                    outputs = size.out_rows() * size.out_width * size.all_filters();
  const Array<T> x = random_array<T>(samples * inputs, random),
                 weights = random_array<T>(size.weights(), random),
                 bias = random_array<T>(size.all_filters(), random);
  const T* const constants = has_bias ? bias.data() : nullptr;
  const Array<T> few(samples * outputs, T(7)), of_batch(outputs * batch);
  size.batch = samples;
  kernels::dispatch(
      kernels::ConvolutionOfFew<T>{size, x.data(), weights.data(), constants, few.data(), finish});
  size.batch = batch;
  kernels::convolution_forward<T>(size, as_batch(x, samples, inputs).data(), weights.data(),
                                  constants, of_batch.data(), finish);
  CHECK(differing(few, of_batch, samples, outputs) == 0);
}

template <class T>
void check_all() {
  const kernels::Finish<T> finishes[] = {{}, {.minimum = T(0)}};
  for (const std::size_t samples : {1u, 3u, 4u, 5u})
    for (const std::size_t inputs : {1u, 6u, 128u, 131u, 400u})
      for (const std::size_t units : {1u, 10u, 16u, 40u, 513u})
        check_dense<T>(samples, inputs, units, units % 2 == 0, finishes[inputs % 2]);
  check_dense<T>(1, 2100, 513, true, finishes[0]);  // weights of more than a cache
  // Sums of one block and of several, of more than 16 runs; dilated, strided, padded, in groups.
  for (const std::size_t filters : {1u, 6u, 16u, 70u})
    for (const std::size_t channels : {1u, 3u, 50u}) {
      const kernels::ConvolutionSize plain{.height = 5,
                                           .width = 6,
                                           .channels = channels,
                                           .out_height = 3,
                                           .out_width = 4,
                                           .filters = filters,
                                           .kernel_height = 3,
                                           .kernel_width = 3};
      check_convolution<T>(plain, 2, true, finishes[1]);
      kernels::ConvolutionSize other = plain;
      other.out_height = 3, other.out_width = 3, other.pad_top = 1, other.pad_left = 1;
      other.stride_height = other.stride_width = 2;
      check_convolution<T>(other, 1, false, finishes[0]);
      kernels::ConvolutionSize dilated = plain;
      dilated.kernel_height = dilated.kernel_width = 5;
      dilated.out_height = 5, dilated.out_width = 6, dilated.pad_top = dilated.pad_left = 4;
      dilated.dilation_height = dilated.dilation_width = 2;
      dilated.groups = 2;
      check_convolution<T>(dilated, 1, true, finishes[0]);
      kernels::ConvolutionSize volume = plain;
      volume.depth = 4, volume.kernel_depth = 3, volume.stride_depth = 2;
      volume.out_depth = 2, volume.pad_front = 1;
      check_convolution<T>(volume, 2, true, finishes[0]);
    }
}

}  // namespace

TEST_CASE("few samples: the sums of a batch") {
  lockstep_test::for_each_instruction_set([] {
    check_all<float>();
    check_all<double>();
  });
}
