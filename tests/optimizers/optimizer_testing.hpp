// What every optimizer must do, checked for one optimizer.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "support/instruction_sets.hpp"

namespace lockstep_test {

/// The arenas of parameters and slots, and updates of any part of them.
template <class T, class O>
class Arena {
 public:
  Arena(const O& optimizer, std::span<const double> start)
      : optimizer_(optimizer), size_(start.size()), parameters_(size_ * sizeof(T)) {
    for (std::size_t i = 0; i < size_; ++i) parameters()[i] = static_cast<T>(start[i]);
    for (std::size_t s = 0; s < optimizer.slots(); ++s) {
      slots_.emplace_back(size_ * sizeof(T));
      if constexpr (requires { optimizer.initial_slot_value(); })
        std::fill_n(slot(s), size_, static_cast<T>(optimizer.initial_slot_value()));
    }
  }

  void update(const lockstep::UpdateContext& context, std::span<const T> gradients) {
    update(context, gradients, 0, size_);
  }
  void update(const lockstep::UpdateContext& context, std::span<const T> gradients,
              std::size_t begin, std::size_t end) {
    std::vector<T*> slots;
    for (std::size_t s = 0; s < slots_.size(); ++s) slots.push_back(slot(s) + begin);
    optimizer_.update(context, std::span<T>(parameters() + begin, end - begin),
                      gradients.subspan(begin, end - begin), std::span<T* const>(slots));
  }

  [[nodiscard]] T* parameters() const { return reinterpret_cast<T*>(parameters_.data()); }
  [[nodiscard]] T* slot(std::size_t s) const { return reinterpret_cast<T*>(slots_[s].data()); }
  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] bool same_bits(const Arena& other) const {
    bool same = std::memcmp(parameters_.data(), other.parameters_.data(), size_ * sizeof(T)) == 0;
    for (std::size_t s = 0; s < slots_.size(); ++s)
      same = same && std::memcmp(slots_[s].data(), other.slots_[s].data(), size_ * sizeof(T)) == 0;
    return same;
  }

 private:
  O optimizer_;
  std::size_t size_;
  lockstep::Buffer parameters_;
  std::vector<lockstep::Buffer> slots_;
};

inline std::vector<double> random_values(std::size_t n, std::uint64_t seed) {
  lockstep::RandomStream random{lockstep::RandomKey(seed)};
  std::vector<double> values(n);
  for (double& value : values) value = random.uniform(-1, 1);
  return values;
}

/// The trajectory is the golden one; the gradients given are twice as large as meant, and
/// gradient_scale is one half.
template <class O>
void check_trajectory(const O& optimizer, std::span<const double> start,
                      std::span<const double> gradients, std::span<const double> expected) {
  const auto check = [&]<class T>(T, double tolerance) {
    Arena<T, O> arena(optimizer, start);
    const std::size_t n = start.size();
    for (std::size_t step = 0; step < gradients.size() / n; ++step) {
      std::vector<T> g;
      for (std::size_t i = 0; i < n; ++i) g.push_back(static_cast<T>(2 * gradients[step * n + i]));
      arena.update({.iteration = static_cast<std::int64_t>(step) + 1,
                    .learning_rate = optimizer.learning_rate,
                    .gradient_scale = 0.5},
                   g);
    }
    for (std::size_t i = 0; i < n; ++i) {
      CAPTURE(i);
      CHECK(static_cast<double>(arena.parameters()[i]) ==
            doctest::Approx(expected[i]).epsilon(tolerance));
    }
  };
  for_each_instruction_set([&] {
    check(double{}, 1e-12);
    check(float{}, 1e-5);
  });
}

/// The test of one step of Keras's optimizers: the learning rate of `optimizer` is 0.5.
template <class O>
void check_keras_step(const O& optimizer, std::array<double, 4> expected) {
  const double start[] = {1, 2, 3, 4}, gradients[] = {1, 6, 7, 2};
  Arena<float, O> arena(optimizer, start);
  arena.update({.learning_rate = optimizer.learning_rate},
               std::vector<float>(std::begin(gradients), std::end(gradients)));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(static_cast<double>(arena.parameters()[i]) == doctest::Approx(expected[i]).epsilon(1e-4));
}

/// The test of five steps of Keras's optimizers: from 1, the first gradient 0.01, then 0.1.
template <class O>
void check_keras_steps(const O& optimizer, std::array<double, 5> expected) {
  const double start[] = {1};
  Arena<float, O> arena(optimizer, start);
  for (std::size_t i = 0; i < 5; ++i) {
    arena.update(
        {.iteration = static_cast<std::int64_t>(i) + 1, .learning_rate = optimizer.learning_rate},
        std::vector<float>{i == 0 ? 0.01F : 0.1F});
    CHECK(static_cast<double>(arena.parameters()[0]) == doctest::Approx(expected[i]).epsilon(2e-4));
  }
}

/// An update in parts gives the bits of an update of the whole, wherever it is cut.
template <class O>
void check_partition_independence(const O& optimizer) {
  const auto check = [&]<class T>(T) {
    const std::size_t n = 203;
    Arena<T, O> whole(optimizer, random_values(n, 1)), parts(optimizer, random_values(n, 1));
    for (std::int64_t step = 1; step <= 3; ++step) {
      std::vector<T> g;
      for (const double value : random_values(n, static_cast<std::uint64_t>(step) + 7))
        g.push_back(static_cast<T>(value));
      const lockstep::UpdateContext context{
          .iteration = step, .learning_rate = 0.0123, .gradient_scale = 1.0 / 37};
      whole.update(context, g);
      const std::size_t part = static_cast<std::size_t>(step) * 16;
      for (std::size_t begin = 0; begin < n; begin += part)
        parts.update(context, g, begin, begin + part < n ? begin + part : n);
      CHECK(whole.same_bits(parts));
    }
    // An element gives the same bits in a vector and in a tail.
    Arena<T, O> single(optimizer, random_values(n, 1));
    Arena<T, O> again(optimizer, random_values(n, 1));
    std::vector<T> g;
    for (const double value : random_values(n, 99)) g.push_back(static_cast<T>(value));
    again.update({.learning_rate = 0.01}, g);
    for (std::size_t i = 0; i < n; ++i) single.update({.learning_rate = 0.01}, g, i, i + 1);
    CHECK(single.same_bits(again));
  };
  for_each_instruction_set([&] {
    check(float{});
    check(double{});
  });
}

}  // namespace lockstep_test
