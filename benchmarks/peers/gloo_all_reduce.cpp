// All-reduces of float32 sums by gloo, on processes of this machine, over TCP on the loopback
// interface.
//
// benchmark_gloo --policy ring|bcube --ranks N --bytes B... [--repetitions N] output: see
// ../all_reduce_timing.hpp

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "../all_reduce_timing.hpp"
#include "forked_ranks.hpp"
#include "lockstep/core/buffer.hpp"

namespace {

using benchmarks::TimingOptions;

/// A folder that goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "gloo-XXXXXX";
};

gloo::AllreduceOptions::Algorithm algorithm_of(const TimingOptions& options) {
  if (options.policy == "ring") return gloo::AllreduceOptions::Algorithm::RING;
  if (options.policy == "bcube") return gloo::AllreduceOptions::Algorithm::BCUBE;
  throw std::invalid_argument("--policy needs ring or bcube");
}

void time_rank(const TimingOptions& options, int rank, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);

  for (const std::size_t bytes : options.bytes) {
    const lockstep::Buffer buffer(bytes);
    const std::span values(reinterpret_cast<float*>(buffer.data()), bytes / sizeof(float));
    gloo::AllreduceOptions all_reduce(context);
    all_reduce.setAlgorithm(algorithm_of(options));
    all_reduce.setOutput(values.data(), values.size());
    all_reduce.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::BarrierOptions barrier(context);
    benchmarks::time_all_reduce(
        options, rank, values, [&] { gloo::barrier(barrier); },
        [&] { gloo::allreduce(all_reduce); });
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = TimingOptions::parse(argc, argv);
  (void)algorithm_of(options);
  const TemporaryFolder folder;
  return benchmarks::fork_ranks(options.ranks,
                                [&](int rank) { time_rank(options, rank, folder.path()); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "gloo_all_reduce: %s\n", error.what());
  return 2;
}
