// A training step takes no memory once the workspace is there. (This file replaces operator new of
// the whole test program, but not that of a sanitizer.)
#include <doctest/doctest.h>

#include "support/sanitizer.hpp"

#if !defined(LOCKSTEP_TEST_SANITIZED)

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/bidirectional.hpp"
#include "lockstep/layers/conv1d.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/layers/pooling.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/saving/predictor.hpp"
#include "support/model_testing.hpp"
#include "support/net_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::atomic<std::int64_t> allocations{0};

void* allocate(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* const memory =
      alignment == 0
          ? std::malloc(size == 0 ? 1 : size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// (g++ takes a call of free for an error where it sees one for what came from operator new.)
void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

TEST_CASE("fit: further steps of an epoch allocate nothing") {
  const TinyData data(23);
  const ls::AnyDataset endless(ls::from_tensor_slices(data.x, data.y).shuffle(7).repeat().batch(5));
  const ls::AnyDataset read_ahead(
      ls::from_tensor_slices(data.x, data.y).shuffle(7).repeat().batch(5).prefetch(2));
  for (const int replicas : {1, 3})
    for (const ls::AnyDataset* dataset : {&endless, &read_ahead}) {
      TinyTrainer trainer({.replicas = replicas, .momentum = 0.9});
      const auto allocations_of = [&](std::int64_t steps) {
        const std::int64_t before = allocations;
        trainer.fit_alone(*dataset, {.steps_per_epoch = steps});
        return allocations - before;
      };
      allocations_of(30);
      const std::int64_t few = allocations_of(30);
      CHECK(few > 0);
      CHECK(allocations_of(230) == few);
    }
}

TEST_CASE("own loop: further steps allocate nothing") {
  const TinyData data(23);
  const ls::AnyDataset endless(ls::from_tensor_slices(data.x, data.y).shuffle(7).repeat().batch(5));
  for (const int replicas : {1, 3}) {
    TinyTrainer trainer({.replicas = replicas, .momentum = 0.9});
    const auto allocations_of = [&](std::int64_t steps) {
      const std::int64_t before = allocations;
      trainer.loop(endless, steps);
      return allocations - before;
    };
    allocations_of(30);
    const std::int64_t few = allocations_of(30);
    CHECK(few > 0);
    CHECK(allocations_of(230) == few);
  }
}

namespace {

template <class Net>
void check_steps_allocate_nothing() {
  NetRunner<Net, float> net;
  net.run(20);
  const std::int64_t before = allocations;
  net.run(20);
  net.run(3);
  CHECK(allocations == before);
}

}  // namespace

TEST_CASE("Predictor: further calls with spans allocate nothing") {
  auto model = ls::compile<ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::Dense<3>>>();
  const ls::Predictor net(model);
  const std::vector<float> x(100 * 4, 0.5F);
  std::vector<float> y(100 * 3);
  net.predict(x, y);
  const std::int64_t before = allocations;
  for (int call = 0; call < 5; ++call) {
    net.predict(x, y);
    net.predict_row(std::span(x).first(4), std::span(y).first(3));
  }
  CHECK(allocations == before);
}

TEST_CASE("layers: a step of a CNN allocates nothing") {
  check_steps_allocate_nothing<ls::Sequential<
      ls::Input<4, 4, 2>, ls::Conv2D<3, 3>, ls::BatchNormalization<>, ls::MaxPooling2D<>,
      ls::LayerNormalization<>, ls::Dropout<0.25>, ls::GlobalAveragePooling2D, ls::Dense<2>>>();
}

TEST_CASE("layers: a step of models of sequences allocates nothing") {
  using Block = ls::Sequential<ls::Residual<ls::LayerNormalization<>, ls::MultiHeadAttention<2, 2>>,
                               ls::Residual<ls::Dense<8, ls::GELU>, ls::Dense<4>>>;
  check_steps_allocate_nothing<
      ls::Sequential<ls::Input<5, 4>, ls::ToSequence, ls::Repeat<2, Block>, ls::Dense<2>>>();
  check_steps_allocate_nothing<ls::Sequential<ls::Input<5, 3>, ls::ToSequence,
                                              ls::Bidirectional<ls::LSTM<4>>, ls::Dense<2>>>();
  check_steps_allocate_nothing<ls::Sequential<ls::Input<9, 3>, ls::ToSequence, ls::Conv1D<4, 3>,
                                              ls::MaxPooling1D<>, ls::GRU<4>, ls::Dense<2>>>();
}

#endif
