// Nccl on arrays in a device's memory, for the stand-in and for real devices.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/suite.hpp"
#include "lockstep/extra/nccl.hpp"

namespace lockstep_test {

using NcclFamily = PolicyFamily<lockstep::Nccl>;

/// An array in the memory of the calling thread's device.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size_ * sizeof(T)));
    data_ = static_cast<T*>(memory);
    set(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  void set(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  [[nodiscard]] std::span<T> span() const { return {data_, size_}; }

 private:
  static void check(cudaError_t result) {
    if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
  }

  T* data_ = nullptr;
  std::size_t size_;
};

template <class T>
void reduces_on_device(lockstep::Nccl& nccl, Complaints& complaints) {
  const int ranks = nccl.size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{1009}, 5 * block_elements + 17}) {
    const std::string what = std::to_string(count) + " elements of " + std::to_string(sizeof(T)) +
                             " bytes on " + std::to_string(ranks) + " devices";
    std::vector<T> sum(count), max = whole_numbers<T>(0, count);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto values = whole_numbers<T>(rank, count);
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] = static_cast<T>(sum[i] + values[i]);
        max[i] = std::max(max[i], values[i]);
      }
    }
    const auto mine = whole_numbers<T>(nccl.rank(), count);
    DeviceArray<T> array(mine);
    nccl.all_reduce(array.span());
    complaints.unless(same_bits(array.get(), sum), "sum of " + what);
    array.set(mine);
    nccl.all_reduce(array.span(), ReduceOp::max);
    complaints.unless(same_bits(array.get(), max), "max of " + what);
    array.set(mine);
    std::vector<double> status(5, nccl.rank() + 1.0);
    nccl.all_reduce(std::span(status), array.span());
    complaints.unless(same_bits(array.get(), sum), "sum with a status of " + what);
    complaints.unless(status == std::vector<double>(5, ranks * (ranks + 1) / 2.0),
                      "status with " + what);

    array.set(mine);
    nccl.reduce_scatter_blocks(array.span());
    const Partition partition(count, ranks);
    std::vector<T> own(count, T{-1}), scattered = array.get();
    for (std::size_t i = 0; i < partition.blocks(); ++i) {
      if (partition.last_rank(i) != nccl.rank()) continue;
      const auto [offset, size] = partition.block(i);
      std::copy_n(scattered.data() + offset, size, own.data() + offset);
    }
    array.set(own);
    nccl.all_gather_blocks(array.span());
    complaints.unless(same_bits(array.get(), sum), "halves of the sum of " + what);
  }
}

inline void moves_bytes_on_device(lockstep::Nccl& nccl, Complaints& complaints) {
  const int ranks = nccl.size();
  const std::size_t count = 700'001;
  const auto content = [&](int rank) { return whole_numbers<std::uint8_t>(rank, count); };
  DeviceArray<std::uint8_t> mine(content(nccl.rank()));
  std::vector<std::uint8_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = content(rank);
    all.insert(all.end(), values.begin(), values.end());
  }
  DeviceArray<std::uint8_t> gathered(std::vector<std::uint8_t>(all.size()));
  nccl.all_gather(std::as_bytes(mine.span()), std::as_writable_bytes(gathered.span()));
  complaints.unless(same_bits(gathered.get(), all), "all_gather");
  const auto place = gathered.span().subspan(count * static_cast<std::size_t>(nccl.rank()), count);
  nccl.all_gather(std::as_bytes(place), std::as_writable_bytes(gathered.span()));
  complaints.unless(same_bits(gathered.get(), all), "all_gather in place");
  for (int root = 0; root < ranks; ++root) {
    mine.set(content(nccl.rank()));
    nccl.broadcast(std::as_writable_bytes(mine.span()), root);
    complaints.unless(same_bits(mine.get(), content(root)), "broadcast");
  }
}

/// Each operation, on arrays in the memory of `ranks` devices.
inline void every_operation_on_devices(int ranks) {
  CAPTURE(ranks);
  Complaints complaints;
  NcclFamily::run(ranks, [&](lockstep::Nccl& nccl) {
    reduces_on_device<float>(nccl, complaints);
    reduces_on_device<double>(nccl, complaints);
    reduces_on_device<std::int64_t>(nccl, complaints);
    moves_bytes_on_device(nccl, complaints);
  });
  complaints.check();
}

}  // namespace lockstep_test
