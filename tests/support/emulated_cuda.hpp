// EmulatedCuda: device kernels on the processor, to test them without a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/compute_device.hpp"
#include "support/fiber.hpp"

namespace lockstep_test {

/// In which order the threads of a block run between two barriers.
enum class ThreadOrder : unsigned char { forward, backward, odd_first };

/// The threads of one block, as fibers that take turns at barriers.
class EmulatedBlock {
 public:
  struct Lane {
    EmulatedBlock* owner;
    unsigned thread, block;
    void barrier() const { owner->fibers_[thread]->pause(); }
  };
  using Body = std::function<void(const Lane&)>;

  EmulatedBlock() = default;
  EmulatedBlock(const EmulatedBlock&) = delete;
  EmulatedBlock& operator=(const EmulatedBlock&) = delete;
  ~EmulatedBlock() {
    body_ = nullptr;
    for (const auto& fiber : fibers_) fiber->resume();
  }

  /// Runs body(lane) for each thread. Throws when threads call barrier() differently often.
  void run(unsigned threads, unsigned block, ThreadOrder order, const Body& body) {
    while (fibers_.size() < threads) add_fiber();
    body_ = &body;
    block_ = block;
    done_ = 0;
    while (done_ < threads) {
      const std::size_t before = done_;
      for (unsigned turn = 0; turn < threads; ++turn)
        fibers_[place(order, turn, threads)]->resume();
      if (done_ != before && done_ != threads)
        throw std::logic_error("some threads of a block have ended, and others wait at a barrier");
    }
  }

 private:
  static unsigned place(ThreadOrder order, unsigned turn, unsigned threads) {
    if (order == ThreadOrder::backward) return threads - 1 - turn;
    if (order == ThreadOrder::forward) return turn;
    const unsigned odd = threads / 2;
    return turn < odd ? 2 * turn + 1 : 2 * (turn - odd);
  }

  void add_fiber() {
    const auto thread = static_cast<unsigned>(fibers_.size());
    fibers_.push_back(std::make_unique<Fiber>([this, thread] {
      while (body_ != nullptr) {
        (*body_)(Lane{this, thread, block_});
        ++done_;
        fibers_[thread]->pause();
      }
    }));
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  const Body* body_ = nullptr;
  unsigned block_ = 0;
  std::size_t done_ = 0;
};

/// A device whose kernels run on the processor. As on a GPU, nothing is done before somebody waits
/// for it, a graph runs what was recorded, and what threads share is garbage at first (NaN). So it
/// shows missing barriers (in another order of threads) and missing synchronize() calls. It knows
/// no timing.
class EmulatedCuda : public lockstep::ComputeDevice {
 public:
  /// Each thread has one.
  static EmulatedCuda& instance() {
    static thread_local EmulatedCuda device;
    return device;
  }

  /// Of the next kernels.
  void set_order(ThreadOrder order) noexcept { order_ = order; }
  [[nodiscard]] std::size_t graphs() const noexcept { return graphs_.size(); }

  [[nodiscard]] lockstep::Buffer allocate(std::size_t bytes) override {
    return lockstep::Buffer(bytes);
  }
  [[nodiscard]] lockstep::Buffer allocate_for_host(std::size_t bytes) override {
    return lockstep::Buffer(bytes);
  }
  void synchronize() override {
    for (const Task& task : std::exchange(tasks_, {})) task();
  }

  template <class Kernel>
  void launch(const Kernel& kernel) {
    tasks_.emplace_back([this, kernel] { run(kernel); });
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    tasks_.emplace_back([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  template <class F>
  void replay(const lockstep::cuda::GraphKey& key, const F& f) {
    auto graph = std::ranges::find(graphs_, key, &Graph::key);
    if (graph == graphs_.end()) {
      std::vector<Task> before = std::exchange(tasks_, {});
      f();
      graphs_.push_back({key, std::exchange(tasks_, std::move(before))});
      graph = std::prev(graphs_.end());
    }
    tasks_.insert(tasks_.end(), graph->tasks.begin(), graph->tasks.end());
  }

 private:
  using Task = std::function<void()>;
  struct Graph {
    lockstep::cuda::GraphKey key;
    std::vector<Task> tasks;
  };

  struct LoneLane {
    unsigned thread, block;
    void barrier() const {
      throw std::logic_error("a kernel without shared memory calls barrier()");
    }
  };

  template <class Kernel>
  void run(const Kernel& kernel) {
    const auto blocks = static_cast<unsigned>(kernel.blocks());
    for (unsigned block = 0; block < blocks; ++block) {
      typename Kernel::Shared shared;
      if constexpr (std::is_empty_v<typename Kernel::Shared>) {  // whose threads never meet
        for (unsigned thread = 0; thread < Kernel::threads; ++thread)
          kernel(LoneLane{thread, block}, shared);
        continue;
      }
      std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);
      threads_.run(Kernel::threads, block, order_,
                   [&](const EmulatedBlock::Lane& lane) { kernel(lane, shared); });
    }
  }

  std::vector<Task> tasks_;
  std::vector<Graph> graphs_;
  EmulatedBlock threads_;
  ThreadOrder order_ = ThreadOrder::forward;
};

}  // namespace lockstep_test
