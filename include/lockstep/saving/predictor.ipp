#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/predictor.hpp"
#include "lockstep/training/fit_plan.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What one call uses.
template <class T>
struct Inference<T>::Memory {
  Buffer values{};
  std::vector<std::int64_t> numbers{};  ///< of the samples
};

template <class T>
Inference<T>::~Inference() {
  for (Place& place : places_) delete place.memory.load();
}

template <class T>
std::size_t Inference<T>::elements(std::size_t samples) const {
  const auto& layout = program_.layout();
  return layout.inputs * padded_batch(samples) +
         layout.outputs * padded_batch(samples * layout.positions) + program_.scratch(samples) +
         program_.temporary(samples);
}

/// 64, or fewer that need 32 MiB at most, as long as that saves memory.
template <class T>
std::size_t Inference<T>::samples_at_once() const {
  constexpr std::size_t limit = (std::size_t{32} << 20) / sizeof(T);
  std::size_t samples = 64;
  while (samples > 1 && elements(samples) > limit && elements(samples / 2) < elements(samples))
    samples /= 2;
  return samples;
}

template <class T>
std::atomic<typename Inference<T>::Memory*>& Inference<T>::place(std::size_t number) const {
  const std::size_t first = std::hash<std::thread::id>()(std::this_thread::get_id()) >> 12;
  return places_[(first + number) % places_.size()].memory;
}

/// Memory of an earlier call, of this thread if possible; else new memory.
template <class T>
typename Inference<T>::Memory* Inference<T>::take() const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (place(i).load(std::memory_order_relaxed) == nullptr) continue;
    if (Memory* const kept = place(i).exchange(nullptr, std::memory_order_acquire)) return kept;
  }
  return new Memory;
}

template <class T>
void Inference<T>::give_back(Memory* memory) const noexcept {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Memory* none = nullptr;
    if (place(i).compare_exchange_strong(none, memory, std::memory_order_release,
                                         std::memory_order_relaxed))
      return;
  }
  delete memory;
}

template <class T>
void Inference<T>::forward(Memory& memory, std::size_t first, std::size_t samples, Read read,
                           T* y) const {
  const auto& layout = program_.layout();
  if (const std::size_t bytes = elements(samples) * sizeof(T); bytes > memory.values.size())
    memory.values = Buffer(bytes);
  memory.numbers.resize(samples);
  std::iota(memory.numbers.begin(), memory.numbers.end(), static_cast<std::int64_t>(first));
  T* next = reinterpret_cast<T*>(memory.values.data());
  const auto array = [&](std::size_t size) {
    return std::span(std::exchange(next, next + size), size);
  };
  const auto view = [&](std::size_t rows, std::size_t features) {
    const std::size_t stride = padded_batch(rows);
    return TensorView<T>(array(features * stride).data(), rows, features, stride);
  };
  const TensorView<T> input = view(samples, layout.inputs);
  const TensorView<T> output = view(samples * layout.positions, layout.outputs);
  read(memory.numbers, input);
  input.clear_padding();
  const StepContext context{.sample_indices = memory.numbers};
  const T* mask = nullptr;
  program_.forward({.context = context,
                    .weights = variables_.weights(),
                    .state = variables_.states(),
                    .x = input,
                    .y = output,
                    .scratch = array(program_.scratch(samples)),
                    .mask_of_y = &mask,
                    .temporary = array(program_.temporary(samples))});
  copy_out<T>(output, 0, output.samples(), y);
}

/// The same, without padding.
template <class T>
void Inference<T>::forward_few(Memory& memory, std::size_t first, std::size_t samples, Read read,
                               T* y) const {
  const std::size_t inputs = program_.layout().inputs, between = few_.widest * samples;
  const std::size_t bytes = (inputs * samples + 2 * between + few_.scratch(samples)) * sizeof(T);
  if (bytes > memory.values.size()) memory.values = Buffer(bytes);
  memory.numbers.resize(1);
  T* const x = reinterpret_cast<T*>(memory.values.data());
  for (std::size_t i = 0; i < samples; ++i) {
    memory.numbers[0] = static_cast<std::int64_t>(first + i);
    read(memory.numbers, TensorView<T>(x + i * inputs, 1, inputs, 1));
  }
  T* const two = x + inputs * samples;
  const T* const outputs_of_all =
      few_.forward({samples, variables_.weights(), x, two, two + 2 * between}, two + between);
  std::copy_n(outputs_of_all, samples * outputs(), y);
}

template <class T>
void Inference<T>::predict(Read read, std::span<T> y) const {
  struct Lease {
    const Inference& from;
    Memory* const memory = from.take();
    ~Lease() { from.give_back(memory); }
  } const lease{*this};
  const kernels::WithOtherWeights<T> scope(variables_.mixed);
  const std::size_t samples = y.size() / outputs();
  for (std::size_t first = 0; first < samples; first += at_once_) {
    const std::size_t count = std::min(at_once_, samples - first);
    T* const to = y.data() + first * outputs();
    try {
      if (few_.forward != nullptr && count <= few_samples)
        forward_few(*lease.memory, first, count, read, to);
      else
        forward(*lease.memory, first, count, read, to);
    } catch (const BadSample& bad) {
      throw bad.of_sample(concat({"sample ", first + bad.row()}));
    }
  }
}

template <class T>
void Inference<T>::predict(std::string_view where, std::size_t samples, std::span<const T> x,
                           std::span<T> y) const {
  const std::size_t inputs = program_.layout().inputs;
  const std::size_t found = samples > 0 ? samples : x.size() / inputs;
  if (x.size() != found * inputs || y.size() != found * outputs())
    throw ConfigurationError(concat({where, ": x has ", x.size(), " numbers and y room for ",
                                     y.size(), "; ", samples == 1 ? "one" : "each", " sample has ",
                                     inputs, " numbers and ", outputs(), " outputs"}));
  predict(
      [&](std::span<const std::int64_t> numbers, TensorView<T> view) {
        scatter_rows<T, T>(
            numbers.size(),
            [&](std::size_t i) { return x.data() + static_cast<std::size_t>(numbers[i]) * inputs; },
            view, [](T value) { return value; });
      },
      y);
}

template <class T>
void Inference<T>::check_shape(std::span<const std::size_t> shape, std::size_t size) const {
  check_sample_shape("predict", shape, size, program_.layout().data.input);
}

LOCKSTEP_INSTANCE(class Inference<LOCKSTEP_REAL>);
}}}  // namespace lockstep::detail
