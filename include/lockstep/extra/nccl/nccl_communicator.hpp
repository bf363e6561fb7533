// A rank's device and its NCCL communicator, and the wait for what runs there. This header is empty
// in programs that do not link the CMake target lockstep::nccl.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_NCCL)

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/mpi/watchdog.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The communicator on this rank's device, with its own stream. What fails is told to all
/// ranks, and thrown, by the transport; the communicator is then aborted, which ends what still
/// runs on the device. No call into CUDA or NCCL waits; one that does not return all the same ends
/// the process, after the other ranks have been told.
class NcclCommunicator {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// Called by all ranks of a connected transport. Returns when NCCL has connected them, at the
  /// latest after `options.startup_timeout`.
  NcclCommunicator(Tcp& tcp, const CommunicationOptions& options)
      : tcp_(tcp),
        progress_limit_(options.progress_limit()),
        watchdog_(progress_limit_ / 2, [this](const char* call) { end_process(call); }) {
    struct Introduction {
      std::array<char, 40> machine;
      ncclUniqueId id;
    } mine{boot_id(), {}};
    if (tcp.rank() == 0) make("ncclGetUniqueId", [&] { return ncclGetUniqueId(&mine.id); });
    const auto all = gather(tcp, mine);
    const auto before_on_machine =
        std::count_if(all.begin(), all.begin() + tcp.rank(),
                      [&](const Introduction& other) { return other.machine == mine.machine; });
    int devices = 0;
    make("cudaGetDeviceCount", [&] { return cudaGetDeviceCount(&devices); });
    if (devices == 0) fail("cudaGetDeviceCount", "there is no device");
    device_ = static_cast<int>(before_on_machine) % devices;
    use_device();
    cudaStream_t stream = nullptr;
    make("cudaStreamCreateWithFlags",
         [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    stream_.reset(stream);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    make("ncclCommInitRankConfig", [&] {
      ncclComm_t communicator = nullptr;
      const ncclResult_t result =
          ncclCommInitRankConfig(&communicator, tcp.size(), all[0].id, tcp.rank(), &config);
      communicator_.reset(communicator);
      return result;
    });
    wait("ncclCommInitRankConfig", std::min(options.startup_timeout, progress_limit_),
         options.startup_timeout <= progress_limit_ ? "startup_timeout" : "progress_timeout");
  }

  /// Zeroed memory of the host that the device reaches.
  [[nodiscard]] Buffer pinned(std::size_t size) {
    if (size == 0) return {};
    void* data = nullptr;
    use_device();
    make("cudaHostAlloc", [&] { return cudaHostAlloc(&data, size, cudaHostAllocDefault); });
    std::memset(data, 0, size);
    return {static_cast<std::byte*>(data), size,
            [](std::byte* memory, std::size_t, void*) { cudaFreeHost(memory); }, nullptr};
  }

  [[nodiscard]] cudaMemoryType type_of(const void* data) {
    cudaPointerAttributes attributes{};
    make("cudaPointerGetAttributes", [&] { return cudaPointerGetAttributes(&attributes, data); });
    return attributes.type;
  }

  /// Begins what call(communicator, stream) asks of NCCL, does something else meanwhile, and waits
  /// until it has been done on the device.
  template <class Call, class Meanwhile>
  void run(Operation operation, const char* name, Call call, Meanwhile meanwhile) {
    tcp_.begin(operation);
    tcp_.check();
    try {
      use_device();
      make(name, [&] { return call(communicator_.get(), stream_.get()); });
      meanwhile();
      wait(name, progress_limit_, "progress_timeout");
    } catch (...) {
      abort();
      throw;
    }
  }

  /// Frees it. After an orderly end nothing is under way.
  void abort() noexcept { communicator_.reset(); }

 private:
  struct Abort {
    Watchdog* watchdog;
    void operator()(ncclComm_t communicator) const noexcept {
      watchdog->begin("ncclCommAbort");
      ncclCommAbort(communicator);
      watchdog->end();
    }
  };
  struct Destroy {
    void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
  };

  /// The end of what has been begun, or of the patience for it.
  class End final : public ExternalEvent {
   public:
    using Clock = std::chrono::steady_clock;

    End(NcclCommunicator& owner, Clock::duration limit)
        : owner_(owner), end_(Clock::now() + limit) {}

    [[nodiscard]] bool has_come() override {
      owner_.watchdog_.begin("ncclCommGetAsyncError");
      const ncclResult_t asked = ncclCommGetAsyncError(owner_.communicator_.get(), &result);
      if (asked != ncclSuccess) result = asked;
      // (While it is in progress, the stream does not hold all of it.)
      if (result == ncclSuccess) status = cudaStreamQuery(owner_.stream_.get());
      owner_.watchdog_.end();
      if (status == cudaSuccess) return true;
      const auto now = Clock::now();
      // The end of a process shows on its connections soon, and they name it.
      if (!is_late() && !has_failed_) end_ = std::min(end_, now + std::chrono::seconds(1));
      has_failed_ = !is_late();
      return now >= end_;
    }
    // Most operations end sooner than a thread wakes up.
    void sleep(Milliseconds most) override {
      if (Clock::now() < spin_until_)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::min<Clock::duration>(most, std::chrono::microseconds(50)));
    }
    /// For one that has come: nothing has failed, nor ended.
    [[nodiscard]] bool is_late() const noexcept {
      return result == ncclInProgress || (result == ncclSuccess && status == cudaErrorNotReady);
    }

    ncclResult_t result = ncclInProgress;
    cudaError_t status = cudaErrorNotReady;

   private:
    NcclCommunicator& owner_;
    Clock::time_point end_;
    const Clock::time_point spin_until_ = Clock::now() + std::chrono::milliseconds(1);
    bool has_failed_ = false;
  };

  void wait(const char* call, Milliseconds limit, const char* option) {
    End end(*this, limit);
    // Each rank waits for the next one: so one that is silent or gone has one that notices.
    if (tcp_.size() > 1)
      tcp_.await(wrap_rank(tcp_.rank() + 1, tcp_.size()), end);
    else
      while (!end.has_come()) end.sleep(Milliseconds(1));
    if (end.is_late()) fail(call, has_not_ended(limit, option));
    check(call, end.result);
    check(call, end.status);
  }

  template <class F>
  void make(const char* call, F f) {
    watchdog_.begin(call);
    const auto result = f();
    watchdog_.end();
    check(call, result);
  }
  void check(const char* call, cudaError_t result) {
    if (result != cudaSuccess) fail(call, cudaGetErrorString(result));
  }
  void check(const char* call, ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress)
      fail(call, concat({ncclGetErrorString(result), ": ", ncclGetLastError(communicator_.get())}));
  }
  [[noreturn, gnu::cold]] void fail(const char* call, const std::string& text) {
    tcp_.fail({.failed_rank = tcp_.rank(), .reason = concat({call, ": ", text})});
  }

  // For the calling thread.
  void use_device() {
    make("cudaSetDevice", [&] { return cudaSetDevice(device_); });
  }

  // A thread that does not come back from a library cannot be ended alone.
  void end_process(const char* call) noexcept {
    try {
      const std::string text = concat({call, has_not_returned(progress_limit_ / 2)});
      tcp_.abort(text, ExitCode::lost_peer);
      log_line(concat({tcp_.name(tcp_.rank()), " ends: ", text}), LogLevel::error);
      std::this_thread::sleep_for(std::chrono::seconds(1));  // until the others have heard of it
    } catch (...) {                                          // out of memory
    }
    std::_Exit(static_cast<int>(ExitCode::lost_peer));
  }

  Tcp& tcp_;
  const Milliseconds progress_limit_;
  Watchdog watchdog_;
  int device_ = 0;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
  std::unique_ptr<std::remove_pointer_t<ncclComm_t>, Abort> communicator_{nullptr, {&watchdog_}};
};

}}}  // namespace lockstep::detail

#endif
