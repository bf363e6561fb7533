// The layers that run on a device, and DeviceLayer, which finds the one for a layer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bias.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/network/branches.hpp"
#include "lockstep/network/float32.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/recompute.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// `Type` is the layer that does on Device what L does on the processor. It has L's name, shapes
/// and variables, so that files fit both.
template <class Device, class L>
struct DeviceLayer {
  static_assert(AliasingLayer<L>,
                "lockstep: this layer does not run on the device; lockstep/extra/cuda/README.md "
                "has a list of those that do");
  using Type = L;
};

namespace detail {

/// (One in which nothing computes would be copied by the processor.)
template <class Device, class... Layers>
struct DeviceSequential {
  static_assert(!(AliasingLayer<Layers> && ...),
                "lockstep: on the device a Sequential needs a layer that computes something");
  using Type = Sequential<typename DeviceLayer<Device, Layers>::Type...>;
};

/// What changes from step to step, where kernels read it.
template <class Device>
[[nodiscard]] Buffer& step_input() {
  static thread_local Buffer buffer;
  return buffer;
}

/// How a device computes A: by what is done to each value at once, or (`keeps`) by a kernel that
/// keeps derivatives in a layer's scratch.
template <class A>
struct DeviceFunction {
  static_assert(is_identity<A>,
                "lockstep: on the device there are the activations Linear, ReLU, Sigmoid, Tanh, "
                "ELU, LeakyReLU, SiLU, GELU and GELUTanh");
};
template <cuda::Function F>
struct ValueFunction {
  static constexpr bool keeps = false;
  static constexpr cuda::Function value = F;
};
template <cuda::KeptFunction F, int Percent = 0>
struct KeptFunction {
  static constexpr bool keeps = true;
  static constexpr cuda::Function value = cuda::Function::linear;
  static constexpr cuda::KeptFunction kept = F;
  static constexpr float parameter = static_cast<float>(Percent) / 100;
};
template <>
struct DeviceFunction<Linear> : ValueFunction<cuda::Function::linear> {};
template <>
struct DeviceFunction<ReLU> : ValueFunction<cuda::Function::relu> {};
template <>
struct DeviceFunction<Sigmoid> : ValueFunction<cuda::Function::sigmoid> {};
template <>
struct DeviceFunction<Tanh> : ValueFunction<cuda::Function::tanh> {};
template <>
struct DeviceFunction<ELU> : KeptFunction<cuda::KeptFunction::elu> {};
template <int Percent>
struct DeviceFunction<LeakyReLU<Percent>> : KeptFunction<cuda::KeptFunction::leaky_relu, Percent> {
};
template <>
struct DeviceFunction<SiLU> : KeptFunction<cuda::KeptFunction::silu> {};
template <>
struct DeviceFunction<GELU> : KeptFunction<cuda::KeptFunction::gelu> {};
template <>
struct DeviceFunction<GELUTanh> : KeptFunction<cuda::KeptFunction::gelu_tanh> {};

template <class A>
inline constexpr cuda::Function device_function = DeviceFunction<A>::value;
/// Elements of the derivatives of n values.
template <class A>
constexpr std::size_t kept_size(std::size_t n) {
  return DeviceFunction<A>::keeps ? n : 0;
}
/// y = A(x), where A keeps derivatives.
template <class A, class Device>
void activate_and_keep(Device& device, const float* x, float* y, std::size_t n, float* slopes) {
  if constexpr (DeviceFunction<A>::keeps)
    cuda::launch_each(
        device, n,
        cuda::ActivateAndKeep{DeviceFunction<A>::kept, DeviceFunction<A>::parameter, x, y, slopes});
}
/// dx = the gradient of A(x).
template <class A, class Device>
void multiply_by_kept(Device& device, const float* dy, const float* slopes, std::size_t n,
                      float* dx) {
  if constexpr (DeviceFunction<A>::keeps)
    cuda::launch_each(device, n, cuda::Multiply{dy, slopes, dx});
}

/// The number of parts in which a product sums its inner extent, so that a GPU has enough blocks.
constexpr unsigned product_splits(std::size_t rows, std::size_t columns, std::size_t inner) {
  constexpr std::size_t wanted = 264, least_inner = 32;
  const std::size_t tiles = cuda::divide_up(rows, 64) * std::size_t{cuda::divide_up(columns, 64)};
  const std::size_t most = std::max<std::size_t>(1, inner / least_inner);
  return static_cast<unsigned>(
      std::clamp<std::size_t>(wanted / std::max<std::size_t>(tiles, 1), 1, most));
}

/// Elements of `partial` of a product.
constexpr std::size_t product_scratch(std::size_t rows, std::size_t columns, std::size_t inner) {
  const std::size_t splits = product_splits(rows, columns, inner);
  return splits == 1 ? 0 : splits * rows * columns;
}

template <class Device, class C>
void sum_parts_on(Device& device, unsigned rows, unsigned columns, unsigned parts,
                  const cuda::Result<C>& c, const float* partial) {
  device.launch(cuda::SumOfParts<C>{c, rows, columns, parts, partial, parts < 16 ? 1u : 16u});
}

template <class Product, class Device, class A, class B, class C>
void multiply_on(Device& device, std::size_t rows, std::size_t columns, std::size_t inner, A a, B b,
                 cuda::Result<C> c, float* partial) {
  const unsigned m = static_cast<unsigned>(rows), n = static_cast<unsigned>(columns);
  const unsigned splits = product_splits(rows, columns, inner);
  device.launch(Product{a, b, c, m, n, static_cast<unsigned>(inner), splits, partial});
  if (splits > 1) sum_parts_on(device, m, n, splits, c, partial);
}

/// The number of parts in which the gradient of a bias is summed.
constexpr std::size_t bias_parts(std::size_t positions, std::size_t stride) {
  return std::clamp<std::size_t>(positions * stride / 1024, 1,
                                 std::min<std::size_t>(positions, 32));
}

/// dy goes back through the activation, and the bias gets its gradient. `partial`: for features *
/// bias_parts elements.
template <class Device>
void activation_and_bias(Device& device, cuda::Function function, const float* y, float* dy,
                         float* bias_gradient, std::size_t positions, std::size_t features,
                         std::size_t stride, float* partial) {
  if (bias_gradient == nullptr && function == cuda::Function::linear) return;
  const auto units = static_cast<unsigned>(features);
  const auto parts = static_cast<unsigned>(bias_parts(positions, stride));
  float* const sums = bias_gradient == nullptr || parts == 1 ? bias_gradient : partial;
  device.launch(cuda::ActivationGradient{function, y, dy, sums, static_cast<unsigned>(positions),
                                         units, static_cast<unsigned>(stride), parts});
  if (sums != bias_gradient)
    sum_parts_on(device, 1, units, parts, cuda::Result<cuda::Rows>{{bias_gradient, 0, 1}}, partial);
}

/// The products of Dense's arrays on a device: x is [inputs][stride], y [units][stride], a kernel
/// [inputs][units]. Each has product_scratch in `partial`.
struct DenseProducts {
  std::size_t inputs, units, stride;
  float* partial;

  static constexpr std::size_t scratch(std::size_t inputs, std::size_t units, std::size_t stride) {
    return std::max({product_scratch(units, stride, inputs), product_scratch(inputs, units, stride),
                     product_scratch(inputs, stride, units)});
  }

  template <class Device>
  void forward(Device& device, const float* x, const float* kernel, const float* bias, float* y,
               cuda::Function function = cuda::Function::linear) const {
    multiply_on<cuda::DenseForward>(
        device, units, stride, inputs, cuda::Matrix{kernel, 1, units}, cuda::Matrix{x, stride, 1},
        cuda::Result<cuda::Rows>{{y, stride, 1}, bias, function}, partial);
  }
  template <class Device>
  void weights(Device& device, const float* x, const float* dy, float* gradient) const {
    multiply_on<cuda::DenseWeights>(device, inputs, units, stride, cuda::Matrix{x, stride, 1},
                                    cuda::Matrix{dy, 1, stride},
                                    cuda::Result<cuda::Rows>{{gradient, units, 1}}, partial);
  }
  template <class Device>
  void input(Device& device, const float* kernel, const float* dy, float* dx) const {
    multiply_on<cuda::DenseInput>(device, inputs, stride, units, cuda::Matrix{kernel, units, 1},
                                  cuda::Matrix{dy, stride, 1},
                                  cuda::Result<cuda::Rows>{{dx, stride, 1}}, partial);
  }
  /// Adds it to dx.
  template <class Device>
  void more_input(Device& device, const float* kernel, const float* dy, float* dx) const {
    multiply_on<cuda::DenseInputMore>(device, inputs, stride, units, cuda::Matrix{kernel, units, 1},
                                      cuda::Matrix{dy, stride, 1},
                                      cuda::Result<cuda::AddingRows>{{dx, stride, 1}}, partial);
  }
};

template <class Device, std::size_t Units, class Activation, DenseOptions Options>
struct DeviceDense : Dense<Units, Activation, Options> {
  template <class Function>
    requires is_identity<Activation>
  using WithActivation = DeviceDense<Device, Units, Function, Options>;
  using Preactivation = DeviceDense<Device, Units, Linear, Options>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return kept_size<Activation>(Units * stride);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return DenseProducts::scratch(In::size, Units, stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    Device& device = Device::instance();
    products<In>(pass).forward(device, pass.x.data(), pass.weights[0].data(),
                               bias<Options.use_bias>(pass.weights), pass.y.data(),
                               device_function<Activation>);
    activate_and_keep<Activation>(device, pass.y.data(), pass.y.data(), Units * pass.x.stride(),
                                  pass.scratch.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    Device& device = Device::instance();
    const std::size_t n = pass.x.stride();
    multiply_by_kept<Activation>(device, pass.dy.data(), pass.scratch.data(), Units * n,
                                 pass.dy.data());
    activation_and_bias(device, device_function<Activation>, pass.y.data(), pass.dy.data(),
                        bias<Options.use_bias>(pass.gradients), 1, Units, n, nullptr);
    products<In>(pass).weights(device, pass.x.data(), pass.dy.data(), pass.gradients[0].data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    products<In>(pass).input(Device::instance(), pass.weights[0].data(), pass.dy.data(),
                             pass.dx.data());
  }

 private:
  template <class In, class Pass>
  static DenseProducts products(const Pass& pass) {
    return {In::size, Units, pass.x.stride(), pass.temporary.data()};
  }
};

/// From lockstep's size of a convolution, or of a pool over channels.
[[nodiscard]] constexpr cuda::Sliding device_sliding(const kernels::ConvolutionSize& s) {
  const auto n = [](std::size_t number) { return static_cast<unsigned>(number); };
  return {n(s.height),        n(s.width),        n(s.channels),      n(s.out_height),
          n(s.out_width),     n(s.filters),      n(s.kernel_height), n(s.kernel_width),
          n(s.stride_height), n(s.stride_width), n(s.pad_top),       n(s.pad_left),
          n(s.batch)};
}
[[nodiscard]] constexpr cuda::Sliding device_sliding(const kernels::PoolingSize& s,
                                                     std::size_t channels) {
  const auto n = [](std::size_t number) { return static_cast<unsigned>(number); };
  return {n(s.height),          n(s.width),        n(channels),      n(s.out_height),
          n(s.out_width),       n(channels),       n(s.pool_height), n(s.pool_width),
          n(s.stride_height),   n(s.stride_width), n(s.pad_top),     n(s.pad_left),
          n(s.pixel / channels)};
}

template <class Device, std::size_t Filters, Extent2D Kernel, class Activation,
          Conv2DOptions Options>
struct DeviceConv2D : Conv2D<Filters, Kernel, Activation, Options> {
  static_assert(Options.groups == 1 && Options.dilation_rate.height == 1 &&
                    Options.dilation_rate.width == 1,
                "lockstep: on the device Conv2D has neither groups nor dilation");
  template <class Function>
    requires is_identity<Activation>
  using WithActivation = DeviceConv2D<Device, Filters, Kernel, Function, Options>;
  using Preactivation = DeviceConv2D<Device, Filters, Kernel, Linear, Options>;

  template <class In, class T>
  static constexpr bool keeps_dy = false;
  template <class In, class T>
  static constexpr bool adds_to_dx = false;

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return kept_size<Activation>(Filters * Sizes(sizes<In>(stride)).outputs);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    const Sizes s(sizes<In>(stride));
    return std::max({product_scratch(Filters, s.outputs, s.patch),
                     product_scratch(s.patch, Filters, s.outputs),
                     product_scratch(In::extents[2], s.inputs, s.taps * Filters),
                     bias_parts(s.positions, stride) * Filters});
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    const std::size_t n = pass.x.stride();
    const Sizes s(sizes<In>(n));
    multiply_on<cuda::ConvolutionForward>(
        Device::instance(), Filters, s.outputs, s.patch,
        cuda::Matrix{pass.weights[0].data(), 1, Filters},
        cuda::Patches{device_sliding(sizes<In>(n)), pass.x.data()},
        cuda::Result<cuda::FeatureRows>{{pass.y.data(), Filters, static_cast<unsigned>(n)},
                                        bias<Options.use_bias>(pass.weights),
                                        device_function<Activation>},
        pass.temporary.data());
    activate_and_keep<Activation>(Device::instance(), pass.y.data(), pass.y.data(),
                                  Filters * s.outputs, pass.scratch.data());
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    Device& device = Device::instance();
    const std::size_t n = pass.x.stride();
    const Sizes s(sizes<In>(n));
    multiply_by_kept<Activation>(device, pass.dy.data(), pass.scratch.data(), Filters * s.outputs,
                                 pass.dy.data());
    activation_and_bias(device, device_function<Activation>, pass.y.data(), pass.dy.data(),
                        bias<Options.use_bias>(pass.gradients), s.positions, Filters, n,
                        pass.temporary.data());
    multiply_on<cuda::ConvolutionWeights>(
        device, s.patch, Filters, s.outputs,
        cuda::Patches{device_sliding(sizes<In>(n)), pass.x.data()},
        cuda::Transposed<cuda::Features>{{pass.dy.data(), Filters, static_cast<unsigned>(n)}},
        cuda::Result<cuda::Rows>{{pass.gradients[0].data(), Filters, 1}}, pass.temporary.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    backward_weights<In, T>(pass);
    const std::size_t n = pass.x.stride();
    const Sizes s(sizes<In>(n));
    constexpr auto channels = static_cast<unsigned>(In::extents[2]);
    const cuda::TransposedKernel kernel{pass.weights[0].data(), channels, Filters,
                                        static_cast<unsigned>(s.taps)};
    const cuda::Sliding sliding = device_sliding(sizes<In>(n));
    const auto multiply = [&]<class Product>(const auto& outputs) {
      multiply_on<Product>(
          Device::instance(), channels, s.inputs, s.taps * Filters, kernel, outputs,
          cuda::Result<cuda::FeatureRows>{{pass.dx.data(), channels, static_cast<unsigned>(n)}},
          pass.temporary.data());
    };
    if constexpr (Options.stride == Extent2D{1, 1})
      multiply.template operator()<cuda::ConvolutionInput>(
          cuda::Patches{sliding.backward(), pass.dy.data()});
    else
      multiply.template operator()<cuda::StridedConvolutionInput>(
          cuda::Scattered{sliding, pass.dy.data()});
  }

 private:
  template <class In>
  static constexpr kernels::ConvolutionSize sizes(std::size_t stride) {
    return Conv2D<Filters, Kernel, Activation, Options>::template size<In>(stride);
  }
  struct Sizes {
    std::size_t taps, patch, positions, outputs, inputs;
    explicit constexpr Sizes(const kernels::ConvolutionSize& s)
        : taps(s.kernel_height * s.kernel_width),
          patch(taps * s.channels),
          positions(s.out_height * s.out_width),
          outputs(positions * s.batch),
          inputs(s.height * s.width * s.batch) {}
  };
};

/// `Layer`: a pooling layer of the processor.
template <class Device, class Layer, bool Max>
struct DevicePooling : Layer {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    using Out = typename Layer::template Output<In>;
    cuda::launch_each(Device::instance(), Out::size * pass.x.stride(),
                      cuda::Pool<Max>{sliding<In>(pass.x.stride()), pass.x.data(), pass.y.data()});
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    cuda::launch_each(Device::instance(), In::size * pass.x.stride(),
                      cuda::PoolGradient<Max>{
                          {sliding<In>(pass.x.stride()), Max ? pass.x.data() : nullptr, nullptr},
                          pass.dy.data(),
                          pass.dx.data()});
  }

 private:
  template <class In>
  static constexpr cuda::Sliding sliding(std::size_t stride) {
    return device_sliding(Layer::template size<In>(stride), In::extents[2]);
  }
};

template <class Device, class Function>
struct DeviceActivation : Activation<Function> {
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return kept_size<Function>(In::size * stride);
  }
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    Device& device = Device::instance();
    const std::size_t n = In::size * pass.x.stride();
    if constexpr (DeviceFunction<Function>::keeps)
      activate_and_keep<Function>(device, pass.x.data(), pass.y.data(), n, pass.scratch.data());
    else
      cuda::launch_each(device, n,
                        cuda::Activate{device_function<Function>, pass.x.data(), pass.y.data()});
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    Device& device = Device::instance();
    const std::size_t n = In::size * pass.x.stride();
    if constexpr (DeviceFunction<Function>::keeps)
      multiply_by_kept<Function>(device, pass.dy.data(), pass.scratch.data(), n, pass.dx.data());
    else
      cuda::launch_each(device, n,
                        cuda::ActivateGradient{device_function<Function>, pass.y.data(),
                                               pass.dy.data(), pass.dx.data()});
  }
};

template <class Device, class Activation, BatchNormalizationOptions Options>
struct DeviceBatchNormalization : BatchNormalization<Activation, Options> {
  static_assert(!Options.synchronized,
                "lockstep: on the device BatchNormalization is not synchronized");
  template <class Function>
    requires is_identity<Activation>
  using WithActivation = DeviceBatchNormalization<Device, Function, Options>;
  using Preactivation = DeviceBatchNormalization<Device, Linear, Options>;
  template <class In>
  static constexpr bool adds_to_output = false;
  template <class In, class T>
  static constexpr bool keeps_dy = false;

  /// Mean, inverse deviation, and what the activation keeps.
  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return 2 * channels<In> + kept_size<Activation>(In::size * stride);
  }
  /// The sums of Moments, and of NormalizeSums.
  template <class In>
  static constexpr std::size_t temporary(std::size_t stride) {
    return 2 * channels<In> * parts<In>(stride) * (sizeof(double) / sizeof(float));
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if (pass.x.samples() == 0) return;
    Device& device = Device::instance();
    const cuda::Channels s = sizes<In>(pass.x);
    double* const sums = reinterpret_cast<double*>(pass.temporary.data());
    if (pass.context.training) device.launch(cuda::Moments{s, pass.x.data(), sums});
    device.launch(cuda::Normalize{s, pass.context.training ? sums : nullptr, pass.x.data(),
                                  Options.scale ? pass.weights[0].data() : nullptr,
                                  Options.center ? pass.weights[beta].data() : nullptr,
                                  pass.y.data(), pass.scratch.data(),
                                  pass.scratch.data() + channels<In>, pass.state[0].data(),
                                  pass.state[1].data(), Options.momentum, Options.epsilon,
                                  In::rank == 3 || In::rank == 4, device_function<Activation>});
    activate_and_keep<Activation>(device, pass.y.data(), pass.y.data(), In::size * pass.x.stride(),
                                  pass.scratch.data() + 2 * channels<In>);
  }

  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, nullptr);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, pass.dx.data());
  }

 private:
  static constexpr std::size_t beta = Options.scale ? 1 : 0;

  template <class In>
  static constexpr std::size_t parts(std::size_t stride) {
    constexpr std::size_t pixels = In::size / channels<In>;
    return std::clamp<std::size_t>(pixels * stride / 2048, 1, std::min<std::size_t>(pixels, 32));
  }
  template <class In, class View>
  static cuda::Channels sizes(const View& x) {
    return {static_cast<unsigned>(In::size / channels<In>), static_cast<unsigned>(channels<In>),
            static_cast<unsigned>(x.samples()), static_cast<unsigned>(x.stride()),
            static_cast<unsigned>(parts<In>(x.stride()))};
  }

  template <class In, class T>
  static void run_backward(const BackwardPass<T>& pass, T* dx) {
    Device& device = Device::instance();
    const cuda::Channels s = sizes<In>(pass.x);
    double* const sums = reinterpret_cast<double*>(pass.temporary.data());
    const T *const mean = pass.scratch.data(), *const inverse = mean + channels<In>;
    multiply_by_kept<Activation>(device, pass.dy.data(), inverse + channels<In>,
                                 In::size * pass.x.stride(), pass.dy.data());
    device.launch(cuda::NormalizeSums{s, pass.x.data(), pass.y.data(), pass.dy.data(), mean, sums,
                                      device_function<Activation>});
    device.launch(cuda::NormalizeGradient{
        s, sums, pass.x.data(), pass.y.data(), pass.dy.data(),
        Options.scale ? pass.weights[0].data() : nullptr, mean, inverse, dx,
        Options.scale ? pass.gradients[0].data() : nullptr,
        Options.center ? pass.gradients[beta].data() : nullptr, device_function<Activation>});
  }
};

/// Add, for containers whose layers run on the device.
template <class Device>
struct DeviceAdd : Add {
  template <class T>
  static constexpr ArrayCalls<T> array_calls{
      [](const T* from, std::size_t n, T* to) { Device::instance().copy(to, from, n * sizeof(T)); },
      [](const T* addend, std::size_t n, T* sum) {
        cuda::launch_each(Device::instance(), n, cuda::Sum{sum, addend, sum});
      }};

  template <class T>
  static void forward(BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    const std::size_t n = elements_of(y);
    if (outputs.size() == 1) return array_calls<T>.copy(outputs[0].data(), n, y.data());
    cuda::launch_each(Device::instance(), n,
                      cuda::Sum{outputs[0].data(), outputs[1].data(), y.data()});
    for (const auto& output : outputs.subspan(2)) array_calls<T>.add(output.data(), n, y.data());
  }
};

template <class Device, class... Layers>
struct DeviceResidual : ResidualLayers<DeviceAdd<Device>, Layers...> {
  static constexpr std::string_view name = Residual<Layers...>::name;
};

template <class Device, Probability Rate>
struct DeviceDropout : Dropout<Rate> {
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    Device& device = Device::instance();
    const std::size_t n = pass.x.stride();
    if (!pass.context.training)
      return device.copy(pass.y.data(), pass.x.data(), In::size * n * sizeof(T));
    cuda::launch_each(
        device, cuda::divide_up(In::size, 4) * n,
        cuda::Drop{reinterpret_cast<const cuda::StepInput*>(step_input<Device>().data()),
                   pass.context.layer, static_cast<cuda::Index>(std::round(Rate.value * 0x1p32)),
                   static_cast<float>(kept_scale(Rate.value)), static_cast<unsigned>(In::size),
                   static_cast<unsigned>(pass.x.samples()), static_cast<unsigned>(n),
                   static_cast<unsigned>(pass.context.positions), pass.x.data(),
                   pass.scratch.data(), pass.y.data()});
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    cuda::launch_each(Device::instance(), In::size * pass.dy.stride(),
                      cuda::Multiply{pass.dy.data(), pass.scratch.data(), pass.dx.data()});
  }
};

}  // namespace detail

template <class Device, class... Layers>
struct DeviceLayer<Device, Sequential<Layers...>> : detail::DeviceSequential<Device, Layers...> {};
template <class Device, std::size_t Times, class L>
struct DeviceLayer<Device, Repeat<Times, L>> {
  using Type = Repeat<Times, typename DeviceLayer<Device, L>::Type>;
};
template <class Device, class... Layers>
struct DeviceLayer<Device, Recompute<Layers...>> {
  static_assert(!sizeof(Device*),
                "lockstep: Recompute does not run on the device: put its layers there without it");
  using Type = Sequential<Layers...>;
};
template <class Device, class L>
struct DeviceLayer<Device, Float32<L>> : DeviceLayer<Device, L> {};
template <class Device, class... Branches>
struct DeviceLayer<Device, Parallel<Add, Branches...>> {
  using Type = Parallel<detail::DeviceAdd<Device>, typename DeviceLayer<Device, Branches>::Type...>;
};
template <class Device, class... Layers>
struct DeviceLayer<Device, Residual<Layers...>> {
  using Type = detail::DeviceResidual<Device, typename DeviceLayer<Device, Layers>::Type...>;
};
template <class Device, std::size_t Units, class Activation, DenseOptions Options>
struct DeviceLayer<Device, Dense<Units, Activation, Options>> {
  using Type = detail::DeviceDense<Device, Units, Activation, Options>;
};
template <class Device, std::size_t Filters, Extent2D Kernel, class Activation,
          Conv2DOptions Options>
struct DeviceLayer<Device, Conv2D<Filters, Kernel, Activation, Options>> {
  using Type = detail::DeviceConv2D<Device, Filters, Kernel, Activation, Options>;
};
template <class Device, Extent2D Pool, PoolingOptions Options>
struct DeviceLayer<Device, MaxPooling2D<Pool, Options>> {
  using Type = detail::DevicePooling<Device, MaxPooling2D<Pool, Options>, true>;
};
template <class Device, Extent2D Pool, PoolingOptions Options>
struct DeviceLayer<Device, AveragePooling2D<Pool, Options>> {
  using Type = detail::DevicePooling<Device, AveragePooling2D<Pool, Options>, false>;
};
template <class Device>
struct DeviceLayer<Device, GlobalMaxPooling2D> {
  using Type = detail::DevicePooling<Device, GlobalMaxPooling2D, true>;
};
template <class Device>
struct DeviceLayer<Device, GlobalAveragePooling2D> {
  using Type = detail::DevicePooling<Device, GlobalAveragePooling2D, false>;
};
template <class Device, class Function>
struct DeviceLayer<Device, Activation<Function>> {
  using Type = detail::DeviceActivation<Device, Function>;
};
template <class Device, class Activation, BatchNormalizationOptions Options>
struct DeviceLayer<Device, BatchNormalization<Activation, Options>> {
  using Type = detail::DeviceBatchNormalization<Device, Activation, Options>;
};
template <class Device, Probability Rate>
struct DeviceLayer<Device, Dropout<Rate>> {
  using Type = detail::DeviceDropout<Device, Rate>;
};

}}  // namespace lockstep
