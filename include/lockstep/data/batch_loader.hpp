// A rank's batches in the layout of activations, read ahead where the dataset asks for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Input and targets of one batch, each [samples x elements of a sample], with padding that is
/// zero. The last elements of the targets are the weights of the samples, where they have some.
template <class T>
struct BatchViews {
  TensorView<T> x;
  TensorView<T> targets;
};

/// The batches of a DistributedDataset, one after the other. When the dataset has a prefetch_size()
/// of n > 0, a separate thread reads up to n batches ahead, into memory that is allocated once;
/// what that thread throws is thrown by next(). Used by one thread.
template <class T>
class BatchLoader {
 public:
  /// Without targets, the dataset is not asked for them.
  explicit BatchLoader(DistributedDataset<AnyDataset> data, bool with_targets = true)
      : data_(std::move(data)), with_targets_(with_targets) {
    if (data_.prefetch_size() == 0) return;
    slots_.resize(data_.prefetch_size() + 1);  // and the one in use
    thread_ = start_thread("reading batches ahead (prefetch)", [this] { work(); });
  }
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  /// How many of the targets' elements are weights.
  [[nodiscard]] std::size_t weight_size() const { return with_targets_ ? data_.weight_size() : 0; }
  [[nodiscard]] const std::string& policy_text() const noexcept { return data_.policy_text(); }

  void begin(Iteration iteration) {
    stop_reading();
    data_.begin(iteration);
  }
  /// Goes to where next() delivers the part after `position` parts of this pass.
  void seek(std::int64_t position) {
    stop_reading();
    data_.seek(position);
  }

  /// Goes to this rank's part of the next batch, which may have 0 samples. False when this rank's
  /// data have ended.
  bool next() {
    if (!prefetches()) return data_.next();
    std::unique_lock lock(mutex_);
    if (ended_) return false;
    if (current_ != nullptr) first_ = (first_ + 1) % slots_.size();
    current_ = nullptr;
    reading_ = reading_ || filled_ == 0;
    wake_.notify_one();
    // (No deadline: without prefetching, this thread would be in the dataset's read for as long.)
    ready_.wait(lock, [this] { return filled_ > 0; });
    --filled_;
    current_ = &slots_[first_];
    ended_ = !current_->has_batch;
    if (current_->failure != nullptr)
      std::rethrow_exception(std::exchange(current_->failure, nullptr));
    return !ended_;
  }

  /// Whether next() would be true.
  [[nodiscard]] bool has_next() {
    if (!prefetches()) return data_.has_next();
    return !ended_ && current_ != nullptr ? current_->has_next : look_ahead();
  }

  /// Samples in this rank's part.
  [[nodiscard]] std::size_t samples() const noexcept {
    return prefetches() ? current_->indices.size() : data_.samples();
  }
  /// Their numbers in the source.
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const noexcept {
    return prefetches() ? std::span<const std::int64_t>(current_->indices) : data_.sample_indices();
  }
  /// The sample in a row of this rank's part, for messages.
  [[nodiscard]] std::string sample_name(std::size_t row) const {
    return data_.sample_name(sample_indices()[row]);
  }
  /// Samples in the whole batch of which this is a part.
  [[nodiscard]] std::size_t batch_size() const noexcept {
    return prefetches() ? current_->batch_size : data_.batch_size();
  }

  /// The current batch: read into `own` (whose views have samples() rows), or where it lies
  /// already. Valid until next().
  [[nodiscard]] BatchViews<T> load(BatchViews<T> own) {
    if (prefetches()) return current_->views;
    read(own);
    return own;
  }

 private:
  struct Slot {
    Buffer memory;
    BatchViews<T> views;
    std::vector<std::int64_t> indices;
    std::size_t batch_size = 0;
    bool has_batch = false;
    bool has_next = false;
    std::exception_ptr failure;
  };

  [[nodiscard]] bool prefetches() const noexcept { return !slots_.empty(); }

  void read(BatchViews<T>& views) {
    if (data_.samples() > 0) data_.read(views.x, with_targets_ ? views.targets : TensorView<T>());
    // A dataset need not write it, and what an earlier batch left there may be anything.
    views.x.clear_padding();
    views.targets.clear_padding();
  }

  /// At the start of a pass nothing has been read yet, so that the dataset can be asked itself.
  [[nodiscard]] bool look_ahead() {
    const std::lock_guard lock(mutex_);
    return !ended_ && !reading_ && data_.has_next();
  }

  void stop_reading() {
    if (!prefetches()) return;
    std::unique_lock lock(mutex_);
    reading_ = false;
    ready_.wait(lock, [this] { return !busy_; });
    first_ = filled_ = 0;
    current_ = nullptr;
    ended_ = false;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] {
        return quit_ || (reading_ && filled_ + (current_ != nullptr) < slots_.size());
      });
      if (quit_) return;
      Slot& slot = slots_[(first_ + filled_ + (current_ != nullptr)) % slots_.size()];
      busy_ = true;
      lock.unlock();
      fill(slot);
      lock.lock();
      busy_ = false;
      ++filled_;
      if (!slot.has_batch) reading_ = false;
      ready_.notify_one();
    }
  }

  void fill(Slot& slot) noexcept {
    try {
      slot.has_batch = data_.next();
      const std::size_t samples = slot.has_batch ? data_.samples() : 0;
      const std::size_t stride = padded_batch(samples);
      const std::size_t sizes[] = {data_.sample_size(), with_targets_ ? data_.target_size() : 0};
      const std::size_t bytes = (sizes[0] + sizes[1]) * stride * sizeof(T);
      if (bytes > slot.memory.size()) slot.memory = Buffer(bytes);
      T* const memory = reinterpret_cast<T*>(slot.memory.data());
      slot.views = {TensorView<T>(memory, samples, sizes[0], stride),
                    TensorView<T>(memory + sizes[0] * stride, samples, sizes[1], stride)};
      slot.indices.assign(data_.sample_indices().begin(), data_.sample_indices().end());
      slot.batch_size = data_.batch_size();
      if (slot.has_batch) read(slot.views);
      slot.has_next = slot.has_batch && data_.has_next();
    } catch (...) {
      slot.has_batch = slot.has_next = false;
      slot.failure = std::current_exception();
    }
  }

  DistributedDataset<AnyDataset> data_;  // the thread's, while reading_ or busy_
  const bool with_targets_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable wake_, ready_;
  std::size_t first_ = 0;    // the current slot, or the next one where there is none
  std::size_t filled_ = 0;   // slots after the current one that are ready
  Slot* current_ = nullptr;  // in use
  bool reading_ = false;
  bool busy_ = false;
  bool ended_ = false;
  bool quit_ = false;
  std::thread thread_;
};

}}  // namespace lockstep
