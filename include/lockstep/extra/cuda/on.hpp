// On: a network that a device computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/compute_device.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/extra/cuda/layers.hpp"
#include "lockstep/extra/cuda/sequences.hpp"
#include "lockstep/extra/cuda/updates.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Net, computed by a device: forward, backward and the optimizer run there, the loss and the
/// metrics on the processor. float32; one replica in a process. Names, shapes and variables are
/// Net's, and so files of weights and backups fit both.
/// @code
/// auto model = ls::compile<ls::On<ls::Cuda, Cnn>>(strategy, loss, ls::SGD{}, ls::Accuracy{});
/// @endcode
/// Layers: see lockstep/extra/cuda/README.md. Optimizers: SGD, Adam and AdamW.
template <class Device, class Net>
struct On : DeviceLayer<Device, Net>::Type {
  using Layers = typename DeviceLayer<Device, Net>::Type;
  static_assert(!std::is_void_v<typename Net::InputShape>,
                "lockstep: On wants a whole model: a Sequential that begins with ls::Input");

  static ComputeDevice& device() { return Device::instance(); }

  template <class O, class T>
  static void update(const O& optimizer, const UpdateContext& context, std::span<T> parameters,
                     std::span<const T> gradients, std::span<T* const> slots) {
    detail::update_on(Device::instance(), optimizer, context, parameters, gradients, slots);
  }

  /// Behind that of the layers: x, y and their gradients.
  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return layer_scratch<In>(samples) + staging<In>(samples);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    static_assert(std::is_same_v<T, float>, "lockstep: a device computes float32");
    Device& device = Device::instance();
    const Staging<In> own(pass.scratch, pass.x.samples());
    write_step_input(pass.context);
    device.copy(own.x.data(), pass.x.data(), bytes(own.x));  // x lies elsewhere each time
    device.replay(key<In>(pass, pass.context.training ? Phase::training : Phase::inference, {},
                          pass.y.data(), nullptr),
                  [&] {
                    ForwardPass<T> inside = pass;
                    inside.x = own.x;
                    inside.y = own.y;
                    inside.scratch = own.layers;
                    Layers::template forward<In, T>(inside);
                    device.copy(pass.y.data(), own.y.data(), bytes(own.y));
                  });
    device.synchronize();
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, Phase::backward, &Layers::template backward<In, T>);
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_backward<In, T>(pass, Phase::backward_weights, &Layers::template backward_weights<In, T>);
  }

 private:
  enum class Phase : std::uint64_t { inference, training, backward, backward_weights };
  template <class In>
  using Out = typename Layers::template Output<In>;

  template <class In>
  static constexpr std::size_t layer_scratch(std::size_t samples) {
    return detail::scratch_of<Layers, In>(samples);
  }
  template <class In>
  static constexpr std::size_t staging(std::size_t samples) {
    return 2 * (detail::tensor_size<In>.elements(samples) +
                detail::tensor_size<Out<In>>.elements(samples));
  }

  /// The device's own arrays of a batch.
  template <class In>
  struct Staging {
    TensorView<float> x, y, dx, dy;
    std::span<float> layers;

    Staging(std::span<float> scratch, std::size_t samples)
        : layers(scratch.first(layer_scratch<In>(samples))) {
      float* next = scratch.data() + layers.size();
      const auto view = [&](const detail::TensorSize& size) {
        const TensorView<float> made = size.view(next, samples);
        next += size.elements(samples);
        return made;
      };
      x = view(detail::tensor_size<In>);
      y = view(detail::tensor_size<Out<In>>);
      dx = view(detail::tensor_size<In>);
      dy = view(detail::tensor_size<Out<In>>);
    }
  };

  template <class In, class T>
  static void run_backward(const BackwardPass<T>& pass, Phase phase,
                           void (*run)(const BackwardPass<T>&)) {
    Device& device = Device::instance();
    const Staging<In> own(pass.scratch, pass.x.samples());
    const bool wants_dx = phase == Phase::backward;
    device.replay(key<In>(pass, phase, pass.gradients, pass.dy.data(), pass.dx.data()), [&] {
      device.copy(own.dy.data(), pass.dy.data(), bytes(own.dy));
      StepContext context = pass.context;
      context.gradients_ready = context.variables_done = {};
      run({.context = context,
           .weights = pass.weights,
           .state = pass.state,
           .x = own.x,
           .y = own.y,
           .dy = own.dy,
           .dx = wants_dx ? own.dx : TensorView<T>(),
           .gradients = pass.gradients,
           .scratch = own.layers,
           .temporary = pass.temporary});
      if (wants_dx) device.copy(pass.dx.data(), own.dx.data(), bytes(own.dx));
    });
    if (wants_dx) device.synchronize();
  }

  static std::size_t bytes(const TensorView<float>& view) {
    return view.features() * view.stride() * sizeof(float);
  }

  static std::uint64_t number(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
  }
  template <class In, class Pass>
  static cuda::GraphKey key(const Pass& pass, Phase phase, Slices<float> gradients,
                            const float* first_of_host, const float* second_of_host) {
    static char model{};
    const auto first = [](Slices<float> arrays) {
      return number(arrays.empty() ? nullptr : arrays[0].data());
    };
    return {number(&model),
            static_cast<std::uint64_t>(phase),
            number(pass.scratch.data()),  // temporary lies behind it
            pass.x.samples(),
            first(pass.weights),
            first(gradients),
            first(pass.state),
            number(detail::step_input<Device>().data()),
            number(first_of_host),
            number(second_of_host)};
  }

  static void write_step_input(const StepContext& context) {
    if (!context.training) return;
    Buffer& input = detail::step_input<Device>();
    const std::size_t numbers = 2 + context.sample_indices.size();
    if (input.size() < numbers * sizeof(std::uint64_t))
      input = Device::instance().allocate_for_host(numbers * sizeof(std::uint64_t));
    auto* const to = reinterpret_cast<std::uint64_t*>(input.data());
    to[0] = context.seed;
    to[1] = static_cast<std::uint64_t>(context.step);
    for (std::size_t i = 2; i < numbers; ++i)
      to[i] = static_cast<std::uint64_t>(context.sample_indices[i - 2]);
  }
};

namespace detail {

template <class Device, class Net>
inline constexpr bool ends_linearly<On<Device, Net>> = ends_linearly<Net>;

}  // namespace detail
}}  // namespace lockstep
