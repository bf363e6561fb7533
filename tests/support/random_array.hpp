// Aligned arrays of exactly the size asked for, and random numbers in them.
#pragma once

#include <cstddef>
#include <random>
#include <span>

#include "lockstep/core/buffer.hpp"

namespace lockstep_test {

/// Of exactly `size` elements, so that sanitizers see every step outside it.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size) : buffer_(size * sizeof(T)), size_(size) {}
  Array(std::size_t size, T value) : Array(size) {
    for (T& element : *this) element = value;
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data(), size_}; }
  T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }

 private:
  lockstep::Buffer buffer_;
  std::size_t size_;
};

/// Uniform in [-1, 1).
template <class T>
Array<T> random_array(std::size_t size, std::mt19937& random) {
  Array<T> array(size);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (T& value : array) value = static_cast<T>(uniform(random));
  return array;
}

}  // namespace lockstep_test
