// The collective of NVIDIA's NCCL. This header is empty in programs that do not link the CMake
// target lockstep::nccl.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_NCCL)

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/nccl/nccl_communicator.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A CollectivePolicy over NCCL, for numbers that GPUs have computed; the ranks meet, speak of
/// failures and sum the status over a Ring<Tcp>.
///
/// What is in a device's memory (or managed by CUDA), NCCL moves, and so it does long sums of float
/// and double in the host's memory: in place where that is pinned, as what allocate() gives is,
/// else through a pinned buffer. Everything else in the host's memory goes over the ring. An array
/// must be in the same kind of memory on all ranks. The device's share of the work on it must be
/// done before a call; when the call returns, so is NCCL's.
///
/// NCCL forms sums in its own order, which is not Partition's: the promise of equal bits between
/// this collective and the others does not hold. All ranks get the same bits. What a maximum of NaN
/// in a device's memory is, NCCL leaves open.
///
/// The device's number is the rank's place among the ranks of its machine (the local rank), modulo
/// the number of devices.
///
/// Failures are those of Tcp. Besides, all ranks throw when a call of one fails, or what it has
/// begun reports an error, or does not end within `options.progress_timeout` (NCCL shows no
/// progress) and at the start within `options.startup_timeout`. All abort what still runs on their
/// devices. A process that NCCL or CUDA does not return to is ended with exit code 138.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
/// Include <lockstep/extra/nccl.hpp>.
class Nccl final : public AnyCollective {
 public:
  /// Bytes in the host's memory from which on sums go to the device. (A guess: not measured.)
  static constexpr std::size_t least_bytes = std::size_t{256} << 10;

  /// As CollectivePolicy demands. Throws ConfigurationError for options that NCCL cannot follow.
  [[nodiscard]] static Nccl connect(Rendezvous rendezvous, const CommunicationOptions& options) {
    check(options);
    add_properties(rendezvous, options, "Nccl");
    Tcp tcp = Tcp::connect(rendezvous, options);
    const int together = detail::open_neighbour_pipes(tcp).together;
    try {
      return Nccl(std::make_unique<State>(Ring<Tcp>(std::move(tcp), options, together), options));
    } catch (const CollectiveError& error) {
      CollectiveFailure failure = error.failure();
      failure.operation = "start-up";
      throw CollectiveError(std::move(failure));
    }
  }

  /// Memory that is summed without a copy.
  [[nodiscard]] Buffer allocate(std::size_t bytes) override {
    return state_->communicator.pinned(bytes);
  }

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override {
    reduce({}, values, op);
  }
  void all_reduce(std::span<double> status, NumberSpan values) override {
    reduce(status, values, ReduceOp::sum);
  }

  void reduce_scatter_blocks(NumberSpan values) override {
    if (!is_on_device(values.data(), values.size()))
      return state_->ring.reduce_scatter_blocks(values);
    const ncclDataType_t type = type_of(values);
    run_blocks(
        {.operation = Operation::reduce_scatter,
         .type = values.type(),
         .bytes = values.size_bytes()},
        "ncclReduceScatter", values,
        [&](std::byte* data, std::byte* own, ncclComm_t communicator, cudaStream_t stream) {
          return ncclReduceScatter(data, own, block_elements, type, ncclSum, communicator, stream);
        },
        [&](std::byte* data, std::size_t count, int owner, ncclComm_t communicator,
            cudaStream_t stream) {
          return ncclReduce(data, data, count, type, ncclSum, owner, communicator, stream);
        });
  }
  void all_gather_blocks(NumberSpan values) override {
    if (!is_on_device(values.data(), values.size())) return state_->ring.all_gather_blocks(values);
    const ncclDataType_t type = type_of(values);
    run_blocks(
        {.operation = Operation::all_gather, .type = values.type(), .bytes = values.size_bytes()},
        "ncclAllGather", values,
        [&](std::byte* data, std::byte* own, ncclComm_t communicator, cudaStream_t stream) {
          return ncclAllGather(own, data, block_elements, type, communicator, stream);
        },
        [&](std::byte* data, std::size_t count, int owner, ncclComm_t communicator,
            cudaStream_t stream) {
          return ncclBroadcast(data, data, count, type, owner, communicator, stream);
        });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    detail::check_root(root, size());
    if (!is_on_device(bytes.data(), bytes.size())) return state_->ring.broadcast(bytes, root);
    run({.operation = Operation::broadcast, .root = root, .bytes = bytes.size()}, "ncclBroadcast",
        [&](ncclComm_t communicator, cudaStream_t stream) {
          return ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, root,
                               communicator, stream);
        });
  }

  /// Both arrays are in a device's memory, or none is.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    detail::check_lengths(mine.size(), all.size(), size());
    const bool on_device = is_on_device(all.data(), all.size());
    if (is_on_device(mine.data(), mine.size()) != on_device)
      throw Error("all_gather: one of the two arrays is in a device's memory, the other is not");
    if (!on_device) return state_->ring.all_gather(mine, all);
    run({.operation = Operation::all_gather, .bytes = mine.size()}, "ncclAllGather",
        [&](ncclComm_t communicator, cudaStream_t stream) {
          return ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, communicator,
                               stream);
        });
  }

  void barrier() override { state_->ring.barrier(); }

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept override {
    state_->ring.abort(reason, code);
  }
  [[nodiscard]] ActivityBoard* board() override { return state_->ring.board(); }
  void close() override {
    state_->ring.close();
    state_->communicator.abort();
  }

 private:
  /// What all ranks must come with.
  struct Call {
    detail::CollectiveCall call;
    std::uint64_t on_device;  ///< 0 for the host's memory, which takes more calls of NCCL's

    friend bool operator==(const Call&, const Call&) = default;
  };

  struct State {
    State(Ring<Tcp> connected, const CommunicationOptions& options)
        : ring(std::move(connected)),
          communicator(ring.transport(), options),
          calls(static_cast<std::size_t>(ring.size())),
          staging(communicator.pinned(staging_bytes)) {}

    Ring<Tcp> ring;
    detail::NcclCommunicator communicator;
    std::vector<Call> calls;
    Buffer staging;
  };

  static constexpr std::size_t staging_bytes = std::size_t{8} << 20;

  explicit Nccl(std::unique_ptr<State> state) noexcept
      : AnyCollective(state->ring.rank(), state->ring.size(), {.shard = true}),
        state_(std::move(state)) {}

  static void check(const CommunicationOptions& options) {
    options.validate();
    const auto refuse = [](bool set, const char* name) {
      if (set)
        throw ConfigurationError(concat({"CommunicationOptions::", name, " is not for Nccl"}));
    };
    refuse(options.wire != Wire::native, "wire");
    refuse(detail::TlsSettings::chosen(options, 0).tls != Tls::off, "tls (or LOCKSTEP_TLS)");
  }

  [[nodiscard]] static ncclDataType_t type_of(NumberSpan values) noexcept {
    return values.type() == DataType::float32   ? ncclFloat32
           : values.type() == DataType::float64 ? ncclFloat64
                                                : ncclInt64;
  }

  [[nodiscard]] bool is_on_device(const void* data, std::size_t size) {
    if (size == 0) return false;
    const cudaMemoryType type = state_->communicator.type_of(data);
    return type == cudaMemoryTypeDevice || type == cudaMemoryTypeManaged;
  }

  void reduce(std::span<double> status, NumberSpan values, ReduceOp op) {
    State& state = *state_;
    const bool on_device = is_on_device(values.data(), values.size());
    if (!on_device && (values.size_bytes() < least_bytes || op != ReduceOp::sum ||
                       values.type() == DataType::int64))
      return status.empty() ? state.ring.all_reduce(values, op)
                            : state.ring.all_reduce(status, values);
    const bool staged =
        !on_device && state.communicator.type_of(values.data()) != cudaMemoryTypeHost;
    const std::size_t most = on_device ? values.size() : staging_bytes / size_of(values.type());
    const Call call{
        {Operation::all_reduce, values.type(), op, 0, values.size_bytes(), status.size()},
        on_device};
    for (std::size_t i = 0; i < values.size(); i += most) {
      const NumberSpan piece = values.subspan(i, std::min(most, values.size() - i));
      std::byte* const data = staged ? state.staging.data() : piece.data();
      if (staged) std::memcpy(data, piece.data(), piece.size_bytes());
      state.communicator.run(
          Operation::all_reduce, "ncclAllReduce",
          [&](ncclComm_t communicator, cudaStream_t stream) {
            return ncclAllReduce(data, data, piece.size(), type_of(piece),
                                 op == ReduceOp::sum ? ncclSum : ncclMax, communicator, stream);
          },
          [&] {
            if (i != 0) return;
            agree(call);
            if (!status.empty()) state.ring.all_reduce(status);
          });
      if (staged) std::memcpy(piece.data(), data, piece.size_bytes());
    }
  }

  // NCCL deals out equal parts of an array, one to each rank, and the blocks from one of rank 0 on
  // are such parts. whole(data, own, ...): for as many blocks as there are ranks, of which the
  // rank's own is one; single(data, count, owner, ...): for one.
  template <class Whole, class Single>
  void run_blocks(const detail::CollectiveCall& call, const char* name, NumberSpan values,
                  Whole whole, Single single) {
    run(call, name, [&](ncclComm_t communicator, cudaStream_t stream) {
      const Partition partition(values.size(), size());
      const std::size_t bytes = block_elements * size_of(values.type());
      const std::size_t full = values.size() / block_elements;
      const auto ranks = static_cast<std::size_t>(size());
      ncclResult_t result = ncclGroupStart();
      const auto note = [&](ncclResult_t next) {
        if (result == ncclSuccess || result == ncclInProgress) result = next;
      };
      for (std::size_t i = 0; i < partition.blocks();) {
        std::byte* const data = values.data() + i * bytes;
        if (partition.last_rank(i) == 0 && i + ranks <= full) {
          note(whole(data, data + static_cast<std::size_t>(rank()) * bytes, communicator, stream));
          i += ranks;
        } else {
          note(
              single(data, partition.block(i).count, partition.last_rank(i), communicator, stream));
          ++i;
        }
      }
      note(ncclGroupEnd());
      return result;
    });
  }

  template <class F>
  void run(const detail::CollectiveCall& call, const char* name, F f) {
    state_->communicator.run(call.operation, name, f, [&] { agree({call, 1}); });
  }

  // Throws, on all ranks, when they have come with different calls.
  void agree(const Call& mine) {
    State& state = *state_;
    Tcp& tcp = state.ring.transport();
    if (size() == 1) return;
    state.calls[static_cast<std::size_t>(rank())] = mine;
    auto flow = detail::ForwardFlow::all_gather(std::as_writable_bytes(std::span(state.calls)),
                                                rank(), size());
    tcp.transfer(wrap_rank(rank() + 1, size()), wrap_rank(rank() - 1, size()), flow);
    const Call& first = state.calls[0];
    for (int other = 1; other < size(); ++other) {
      const Call& call = state.calls[static_cast<std::size_t>(other)];
      if (call == first) continue;
      const auto text = [](const Call& each) {
        return concat({to_string(each.call), each.on_device != 0 ? " on a device" : ""});
      };
      tcp.fail({.reason = concat({detail::are_out_of_step("workers", tcp.name(0), text(first),
                                                          tcp.name(other), text(call)),
                                  detail::equal_calls, tcp.calls()}),
                .code = ExitCode::failure});
    }
  }

  std::unique_ptr<State> state_;
};

}}  // namespace lockstep

#endif
