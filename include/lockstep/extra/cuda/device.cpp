// The library of lockstep::cuda: the device, by CUDA's run-time library.
#include "lockstep/extra/cuda/device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/extra/cuda/launch.cuh"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace {

void check(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // else the next call would report it again
  throw Error(concat(
      {"Cuda: ", call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"}));
}

/// Before calls of this thread: it may have used another device, or none.
void use_device() { check(cudaSetDevice(0), "cudaSetDevice"); }

void check_memory(std::size_t bytes) {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  if (bytes > free)
    throw Error(
        concat({"Cuda: the model needs another ", bytes >> 20, " MiB on the device, which has ",
                free >> 20, " MiB of ", all >> 20, " free"}));
}

}  // namespace

struct Cuda::State {
  struct Graph {
    cuda::GraphKey key;
    cudaGraphExec_t graph;
  };
  static constexpr std::size_t most_graphs = 64;

  cudaStream_t stream{};
  std::vector<Graph> graphs;

  void forget_graphs() {
    for (const Graph& each : graphs) (void)cudaGraphExecDestroy(each.graph);
    graphs.clear();
  }
};

Cuda& Cuda::instance() {
  static Cuda device;
  return device;
}

Cuda::Cuda() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  use_device();
  auto state = std::make_unique<State>();
  check(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  state_ = state.release();
}

Cuda::~Cuda() {
  state_->forget_graphs();
  (void)cudaStreamDestroy(state_->stream);
  delete state_;
}

std::string Cuda::description() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return concat({properties.name, ", ", properties.multiProcessorCount, " multiprocessors, ",
                 properties.totalGlobalMem >> 20, " MiB"});
}

Buffer Cuda::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  use_device();
  check_memory(bytes);
  void* data = nullptr;
  check(cudaMallocManaged(&data, bytes), "cudaMallocManaged");
  Buffer buffer(
      static_cast<std::byte*>(data), bytes,
      [](std::byte* of, std::size_t, void*) { (void)cudaFree(of); }, nullptr);
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  check(cudaMemAdvise(data, bytes, cudaMemAdviseSetPreferredLocation, device), "cudaMemAdvise");
  check(cudaMemsetAsync(data, 0, bytes, state_->stream), "cudaMemset");
  synchronize();
  return buffer;
}

Buffer Cuda::allocate_for_host(std::size_t bytes) {
  if (bytes == 0) return {};
  use_device();
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "cudaMallocHost");
  std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{});
  return Buffer(
      static_cast<std::byte*>(data), bytes,
      [](std::byte* of, std::size_t, void*) { (void)cudaFreeHost(of); }, nullptr);
}

void Cuda::synchronize() { check(cudaStreamSynchronize(state_->stream), "a kernel"); }

template <class Kernel>
void Cuda::launch(const Kernel& kernel) {
  use_device();
  check(static_cast<cudaError_t>(cuda::launch(kernel, state_->stream)), "a kernel's launch");
}

void Cuda::copy(void* to, const void* from, std::size_t bytes) {
  use_device();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->stream), "cudaMemcpy");
}

void Cuda::replay(const cuda::GraphKey& key, FunctionRef<void()> f) {
  use_device();
  auto found = std::ranges::find(state_->graphs, key, &State::Graph::key);
  if (found == state_->graphs.end()) {
    if (state_->graphs.size() == State::most_graphs) {
      synchronize();
      state_->forget_graphs();
    }
    check(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      f();
    } catch (...) {
      (void)cudaStreamEndCapture(state_->stream, &graph);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(state_->stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
    (void)cudaGraphDestroy(graph);
    check(error, "cudaGraphInstantiate");
    state_->graphs.push_back({key, ready});
    found = std::prev(state_->graphs.end());
  }
  check(cudaGraphLaunch(found->graph, state_->stream), "cudaGraphLaunch");
}

using namespace cuda;  // the list has their names alone
#define LOCKSTEP_CUDA_INSTANCE(...) template void Cuda::launch(const __VA_ARGS__&);
LOCKSTEP_CUDA_KERNELS(LOCKSTEP_CUDA_INSTANCE)

}}  // namespace lockstep
