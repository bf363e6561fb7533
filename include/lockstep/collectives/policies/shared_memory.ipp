#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/collectives/threads/thread_barrier.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"

#if LOCKSTEP_LINUX
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Sleep while the counter is `seen`, for `most` at the longest, and wake the sleepers of all
/// processes.
LOCKSTEP_INLINE void wait_for_change([[maybe_unused]] std::atomic<std::uint32_t>& counter,
                                     [[maybe_unused]] std::uint32_t seen,
                                     [[maybe_unused]] const timespec& most) {
#if LOCKSTEP_LINUX
  ::syscall(SYS_futex, &counter, FUTEX_WAIT, seen, &most, nullptr, 0);
#endif
}
LOCKSTEP_INLINE void wake_waiting([[maybe_unused]] std::atomic<std::uint32_t>& counter) noexcept {
#if LOCKSTEP_LINUX
  ::syscall(SYS_futex, &counter, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
#endif
}

LOCKSTEP_INLINE std::uint64_t random_cookie() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

LOCKSTEP_INLINE std::array<char, 40> boot_id() {
  std::array<char, 40> text{};
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    (void)!std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
  }
  return text;
}

LOCKSTEP_INLINE SharedHomes share_homes(Tcp& tcp, const Rendezvous& rendezvous) {
  struct Introduction {
    SegmentName home;
    std::array<char, 40> machine;
    std::array<char, 200> problem;
  };
  const auto put = [](std::array<char, 200>& text, const std::string& problem) {
    problem.copy(text.data(), text.size() - 1);
  };
  const auto first_problem = [&](const std::vector<Introduction>& all) {
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].problem[0] != 0)
        return concat({tcp.name(static_cast<int>(r)), ": ", all[r].problem.data()});
    return std::string();
  };

  SharedHomes homes{.segments = std::vector<SharedSegment>(static_cast<std::size_t>(tcp.size())),
                    .spins = rendezvous.has_cores_for_all(),
                    .problem = {}};
  Introduction mine{.home = {}, .machine = boot_id(), .problem = {}};
  try {
    auto& own = homes.segments[static_cast<std::size_t>(tcp.rank())];
    own = SharedSegment::create(sizeof(SharedHome), random_cookie());
    ::new (own.data()) SharedHome;
    mine.home = own.name();
  } catch (const Error& error) {
    put(mine.problem, error.what());
  }
  auto all = gather(tcp, mine);
  homes.problem = first_problem(all);
  for (std::size_t r = 1; r < all.size() && homes.problem.empty(); ++r)
    if (all[r].machine != all[0].machine)
      homes.problem =
          concat({tcp.name(static_cast<int>(r)), " runs on another machine than ", tcp.name(0)});
  if (!homes.problem.empty()) return homes;

  try {
    for (int r = 0; r < tcp.size(); ++r)
      if (r != tcp.rank()) {
        const auto i = static_cast<std::size_t>(r);
        homes.segments[i] = SharedSegment::open(all[i].home);
      }
  } catch (const Error& error) {
    put(mine.problem, error.what());
  }
  homes.problem = first_problem(gather(tcp, mine));
  return homes;
}

LOCKSTEP_INLINE bool SharedArrival::has_come() {
  return static_cast<std::int32_t>(home_.arrivals.load(std::memory_order_acquire) - wanted_) >= 0;
}

// The sleeper counts itself before it looks, the other arrives before it counts the sleepers: one
// of the two sees the other.
LOCKSTEP_INLINE void SharedArrival::sleep(std::chrono::milliseconds most) {
  home_.sleepers.fetch_add(1);
  const std::uint32_t seen = home_.arrivals.load();
  if (static_cast<std::int32_t>(seen - wanted_) < 0) {
    const timespec time{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
    wait_for_change(home_.arrivals, seen, time);
  }
  home_.sleepers.fetch_sub(1);
}

LOCKSTEP_INLINE void SharedArrival::wake(SharedHome& own) noexcept {
  if (own.sleepers.load() > 0) wake_waiting(own.arrivals);
}

LOCKSTEP_INLINE SharedArrays::SharedArrays(int rank, int size)
    : rank_(rank), own_(std::make_shared<OwnSegments>()), mapped_(static_cast<std::size_t>(size)) {}

LOCKSTEP_INLINE Buffer SharedArrays::allocate(std::size_t size) {
  if (size == 0) return {};
  using Owner = std::shared_ptr<OwnSegments>;
  auto owner = std::make_unique<Owner>(own_);
  own_->list.push_back(SharedSegment::create(size, random_cookie()));
  const auto release = [](std::byte* data, std::size_t, void* context) {
    const std::unique_ptr<Owner> segments(static_cast<Owner*>(context));
    std::erase_if((*segments)->list,
                  [&](const SharedSegment& segment) { return segment.data() == data; });
  };
  return Buffer(own_->list.back().data(), size, release, owner.release());
}

LOCKSTEP_INLINE void SharedArrays::find_segment(SharedSlot& mine, const void* data) const noexcept {
  const auto* const first = static_cast<const std::byte*>(data);
  for (const SharedSegment& segment : own_->list)
    if (first >= segment.data() && first + mine.call.bytes <= segment.data() + segment.size()) {
      mine.segment = segment.name();
      mine.offset = static_cast<std::uint64_t>(first - segment.data());
    }
}

LOCKSTEP_INLINE std::byte* SharedArrays::mapped(int rank, const SharedSlot& slot) {
  constexpr std::size_t most_segments = 8;
  auto& segments = rank == rank_ ? own_->list : mapped_[static_cast<std::size_t>(rank)];
  const auto known = std::find_if(
      segments.begin(), segments.end(),
      [&](const SharedSegment& segment) { return segment.name().cookie == slot.segment.cookie; });
  if (known != segments.end()) {
    if (rank != rank_) std::rotate(known, known + 1, segments.end());
    return (rank != rank_ ? segments.back() : *known).data() + slot.offset;
  }
  if (segments.size() == most_segments) segments.erase(segments.begin());
  segments.push_back(SharedSegment::open(slot.segment));
  return segments.back().data() + slot.offset;
}

/// Time for the end of a process to show on its connections.
struct ASecond final : ExternalEvent {
  const std::chrono::steady_clock::time_point end =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);

  [[nodiscard]] bool has_come() override { return std::chrono::steady_clock::now() >= end; }
  void sleep(std::chrono::milliseconds most) override { std::this_thread::sleep_for(most); }
};

}  // namespace detail

LOCKSTEP_INLINE SharedMemory SharedMemory::connect(Rendezvous rendezvous,
                                                   const CommunicationOptions& options) {
  options.validate();
  add_properties(rendezvous, options, "SharedMemory");
  Tcp tcp = Tcp::connect(rendezvous, options);
  detail::SharedHomes homes = detail::share_homes(tcp, rendezvous);
  if (!homes.problem.empty()) {
    tcp.close();  // not before all know: a rank that is gone would be taken for the failure
    throw ConfigurationError(
        concat({"SharedMemory: ", homes.problem, "; Ring<Tcp> or Auto need no shared memory"}));
  }
  return SharedMemory(std::move(tcp), std::move(homes));
}

LOCKSTEP_INLINE SharedMemory::SharedMemory(Tcp tcp, detail::SharedHomes homes)
    : AnyCollective(tcp.rank(), tcp.size(), {.share = true, .shard = true}),
      tcp_(std::move(tcp)),
      homes_(std::move(homes)),
      shared_(rank(), size()) {}

LOCKSTEP_INLINE detail::SharedSlot& SharedMemory::begin(const detail::CollectiveCall& call) {
  tcp_.begin(call.operation);
  tcp_.check();
  Slot& mine = homes_[rank()].slots[(arrivals_ + 1) % 2];
  mine = {.call = call, .arrival = arrivals_ + 1, .segment = {}};
  return mine;
}

LOCKSTEP_INLINE void SharedMemory::enter() {
  arrive();
  const auto slot = [this](int r) -> const Slot& { return homes_[r].slots[arrivals_ % 2]; };
  for (int r = 1; r < size(); ++r)
    if (slot(r).call != slot(0).call || slot(r).arrival != slot(0).arrival)
      tcp_.fail({.reason = concat(  // the slots first: calls() takes time, in which they change
                     {detail::are_out_of_step("workers", tcp_.name(0), to_string(slot(0).call),
                                              tcp_.name(r), to_string(slot(r).call)),
                      detail::equal_calls, tcp_.calls()}),
                 .code = ExitCode::failure});
  find_arrays();
}

LOCKSTEP_INLINE void SharedMemory::arrive() {
  homes_[rank()].arrivals.store(++arrivals_);
  detail::SharedArrival::wake(homes_[rank()]);
  for (int r = 0; r < size(); ++r)
    if (r != rank()) await(r);
}

LOCKSTEP_INLINE void SharedMemory::await(int other) {
  detail::SharedArrival arrival(homes_[other], arrivals_);
  if (arrival.has_come()) return;
  if (homes_.spins) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
      for (int i = 0; i < 32; ++i) {
        if (arrival.has_come()) return;
        detail::relax();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  tcp_.await(other, arrival);
}

LOCKSTEP_INLINE void SharedMemory::find_arrays() {
  arrays_.clear();
  for (int r = 0; r < size(); ++r)
    if (homes_[r].slots[arrivals_ % 2].segment.size == 0) return;
  for (int r = 0; r < size(); ++r) {
    try {
      arrays_.push_back(shared_.mapped(r, homes_[r].slots[arrivals_ % 2]));
    } catch (const Error& error) {
      detail::ASecond second;
      // Throws when that rank has ended, and its memory with it.
      if (r != rank()) tcp_.await(r, second);
      tcp_.fail({.failed_rank = rank(), .reason = error.what(), .code = ExitCode::failure});
    }
  }
}

LOCKSTEP_INLINE void SharedMemory::in_parts(
    std::size_t bytes, FunctionRef<void(std::size_t, std::size_t, std::byte*)> write,
    FunctionRef<void(std::size_t, std::size_t)> read) {
  for (std::size_t offset = 0; offset == 0 || offset < bytes; offset += staging_bytes) {
    const std::size_t count = std::min(staging_bytes, bytes - offset);
    write(offset, count, next_staging());
    offset == 0 ? enter() : arrive();
    read(offset, count);
  }
}

LOCKSTEP_INLINE void SharedMemory::reduce(Operation operation, ReduceOp op,
                                          std::span<double> status, NumberSpan values,
                                          const UseSums* f) {
  if (size() == 1) return detail::finish_all(status, values, f);
  Slot& mine = begin({.operation = operation,
                      .type = values.type(),
                      .op = op,
                      .bytes = values.size_bytes(),
                      .status_count = status.size()});
  const std::size_t bytes = status.size_bytes() + values.size_bytes();
  if (bytes * static_cast<std::size_t>(size()) <= short_bytes)
    return reduce_short(op, status, values, f);

  shared_.find_segment(mine, values.data());
  in_parts(
      status.size_bytes(),
      [&](std::size_t offset, std::size_t count, std::byte* area) {
        if (count > 0) std::memcpy(area, std::as_bytes(status).data() + offset, count);
      },
      [&](std::size_t offset, std::size_t count) {
        detail::combine_ranks({DataType::float64, op}, status.data() + offset / sizeof(double), 0,
                              size(), count / sizeof(double), [&](int r) { return staging(r); });
      });
  if (arrays_.empty()) return reduce_staged(op, status, values, f);
  reduce_share(
      {values.type(), op}, status, 0, values.size(),
      [&](int r) { return arrays_[static_cast<std::size_t>(r)]; }, f);
  arrive();
}

LOCKSTEP_INLINE void SharedMemory::reduce_short(ReduceOp op, std::span<double> status,
                                                NumberSpan values, const UseSums* f) {
  if (!status.empty()) std::memcpy(next_staging(), status.data(), status.size_bytes());
  if (!values.empty())
    std::memcpy(next_staging() + status.size_bytes(), values.data(), values.size_bytes());
  enter();
  detail::combine_ranks({DataType::float64, op}, status.data(), 0, size(), status.size(),
                        [&](int r) { return staging(r); });
  detail::combine_range({values.type(), op}, values.data(), 0, values.size(), size(),
                        [&](int r) { return staging(r) + status.size_bytes(); });
  detail::finish_all(status, values, f);
}

LOCKSTEP_INLINE void SharedMemory::reduce_staged(ReduceOp op, std::span<double> status,
                                                 NumberSpan values, const UseSums* f) {
  const std::size_t part = staging_bytes / size_of(values.type());
  for (std::size_t offset = 0; offset < values.size(); offset += part) {
    const NumberSpan own = values.subspan(offset, std::min(part, values.size() - offset));
    std::memcpy(next_staging(), own.data(), own.size_bytes());
    arrive();
    const std::byte* const results = staging(rank());
    reduce_share(
        {values.type(), op}, status, offset, own.size(), [&](int r) { return staging(r); }, f);
    arrive();
    std::memcpy(own.data(), results, own.size_bytes());
  }
}

LOCKSTEP_INLINE void SharedMemory::reduce_share(const detail::Combination& how,
                                                std::span<const double> status, std::size_t begin,
                                                std::size_t count, detail::RankArrays arrays,
                                                const UseSums* f) const {
  if (f == nullptr) return detail::reduce_share_for_all(how, rank(), size(), begin, count, arrays);
  alignas(cache_line) std::byte memory[detail::piece_elements * sizeof(double)];
  detail::reduce_share(
      how, rank(), size(), begin, count, arrays, [&](std::size_t offset, ConstNumberSpan sums) {
        const NumberSpan results(memory, sums.size(), sums.type());
        (*f)(status, begin + offset, sums, results);
        for (int r = 0; r < size(); ++r)
          std::memcpy(arrays(r) + offset * size_of(how.type), results.data(), results.size_bytes());
      });
}

LOCKSTEP_INLINE void SharedMemory::reduce_scatter_blocks(NumberSpan values) {
  if (size() == 1) return;
  Slot& mine = begin({.operation = Operation::reduce_scatter,
                      .type = values.type(),
                      .bytes = values.size_bytes()});
  shared_.find_segment(mine, values.data());
  enter();
  if (arrays_.empty()) return reduce_staged(ReduceOp::sum, {}, values, nullptr);
  const Partition partition(values.size(), size());
  const int group = partition.group_ending_at(rank());
  alignas(cache_line) std::byte sums[detail::piece_elements * sizeof(double)];
  for (std::size_t k = 0; k < partition.group_size(group); ++k) {
    const Piece block = partition.group_block(group, k);
    for (std::size_t i = 0; i < block.count; i += detail::piece_elements) {
      const NumberSpan own =
          values.subspan(block.offset + i, std::min(detail::piece_elements, block.count - i));
      const std::size_t bytes = (block.offset + i) * size_of(values.type());
      detail::combine_range({values.type(), ReduceOp::sum}, sums, block.offset + i, own.size(),
                            size(),
                            [&](int r) { return arrays_[static_cast<std::size_t>(r)] + bytes; });
      std::memcpy(own.data(), sums, own.size_bytes());
    }
  }
  arrive();
}

LOCKSTEP_INLINE void SharedMemory::all_gather_blocks(NumberSpan values) {
  if (size() == 1) return;
  Slot& mine = begin(
      {.operation = Operation::all_gather, .type = values.type(), .bytes = values.size_bytes()});
  shared_.find_segment(mine, values.data());
  enter();
  if (arrays_.empty()) return gather_staged(values);
  const Partition partition(values.size(), size());
  for (std::size_t i = 0; i < partition.blocks(); ++i) {
    const int owner = partition.last_rank(i);
    if (owner == rank()) continue;
    const NumberSpan block = values.subspan(partition.block(i).offset, partition.block(i).count);
    std::memcpy(block.data(),
                arrays_[static_cast<std::size_t>(owner)] + (block.data() - values.data()),
                block.size_bytes());
  }
  arrive();
}

/// After an arrival.
LOCKSTEP_INLINE void SharedMemory::gather_staged(NumberSpan values) {
  const Partition partition(values.size(), size());
  const std::size_t part = staging_bytes / size_of(values.type());
  static_assert(staging_bytes % (block_elements * sizeof(double)) == 0);
  for (std::size_t offset = 0; offset < values.size(); offset += part) {
    const NumberSpan all = values.subspan(offset, std::min(part, values.size() - offset));
    std::memcpy(next_staging(), all.data(), all.size_bytes());
    arrive();
    for (std::size_t done = 0; done < all.size(); done += block_elements) {
      const NumberSpan block = all.subspan(done, std::min(block_elements, all.size() - done));
      const int owner = partition.last_rank((offset + done) / block_elements);
      if (owner != rank())
        std::memcpy(block.data(), staging(owner) + (block.data() - all.data()), block.size_bytes());
    }
  }
}

LOCKSTEP_INLINE void SharedMemory::broadcast(std::span<std::byte> bytes, int root) {
  detail::check_root(root, size());
  if (size() == 1) return;
  (void)begin({.operation = Operation::broadcast, .root = root, .bytes = bytes.size()});
  in_parts(
      bytes.size(),
      [&](std::size_t offset, std::size_t count, std::byte* area) {
        if (rank() == root && count > 0) std::memcpy(area, bytes.data() + offset, count);
      },
      [&](std::size_t offset, std::size_t count) {
        if (rank() != root && count > 0) std::memcpy(bytes.data() + offset, staging(root), count);
      });
}

LOCKSTEP_INLINE void SharedMemory::all_gather(std::span<const std::byte> mine,
                                              std::span<std::byte> all) {
  detail::check_lengths(mine.size(), all.size(), size());
  (void)begin({.operation = Operation::all_gather, .bytes = mine.size()});
  in_parts(
      mine.size(),
      [&](std::size_t offset, std::size_t count, std::byte* area) {
        if (count > 0) std::memcpy(area, mine.data() + offset, count);
      },
      [&](std::size_t offset, std::size_t count) {
        for (int r = 0; r < size() && count > 0; ++r)
          std::memcpy(all.data() + mine.size() * static_cast<std::size_t>(r) + offset, staging(r),
                      count);
      });
}

LOCKSTEP_INLINE void SharedMemory::barrier() {
  (void)begin({.operation = Operation::barrier});
  enter();
}

namespace detail {

LOCKSTEP_INLINE NeighbourPipes open_neighbour_pipes(Tcp& tcp, std::string_view host) {
  const int size = tcp.size(), rank = tcp.rank();
  // Two ranks need one side: each is the other's next one.
  const int sides = size > 2 ? 2 : size - 1;
  const auto neighbour = [&](int side) { return wrap_rank(rank + (side == 0 ? 1 : -1), size); };
  const auto index = [](int r) { return static_cast<std::size_t>(r); };
  // The side on which this rank is for its neighbour.
  const auto facing = [&](int side) { return index(sides == 2 ? 1 - side : side); };

  struct Introduction {
    std::array<char, 40> host{};
    std::array<SegmentName, 2> pipes{};  // to the next rank and to the previous one
  };
  Introduction mine;
  mine.host = boot_id();
  if (!host.empty()) {
    mine.host = {};
    host.copy(mine.host.data(), mine.host.size() - 1);
  }
  struct Ends {
    SharedSegment own, other;
  };
  std::array<Ends, 2> ends;
  try {
    for (int side = 0; side < sides; ++side) {
      ends[index(side)].own = SharedSegment::create(sizeof(PipeMemory), random_cookie());
      ::new (ends[index(side)].own.data()) PipeMemory;
      mine.pipes[index(side)] = ends[index(side)].own.name();
    }
  } catch (const Error&) {  // then not
  }
  const auto all = gather(tcp, mine);

  std::array<char, 2> opened{};
  for (int side = 0; side < sides; ++side) {
    const Introduction& theirs = all[index(neighbour(side))];
    const SegmentName& name = theirs.pipes[facing(side)];
    if (theirs.host != mine.host || mine.pipes[index(side)].size == 0 ||
        name.size != sizeof(PipeMemory))
      continue;
    try {
      ends[index(side)].other = SharedSegment::open(name);
      opened[index(side)] = 1;
    } catch (const Error&) {  // another user's, or in another container
    }
  }
  const auto all_opened = gather(tcp, opened);

  const auto share = [&](int r, std::size_t side, std::size_t other_side) {
    return all_opened[index(r)][side] != 0 &&
           all_opened[index(wrap_rank(r + (side == 0 ? 1 : -1), size))][other_side] != 0;
  };
  for (int side = 0; side < sides; ++side) {
    if (!share(rank, index(side), facing(side))) continue;
    auto& [own, other] = ends[index(side)];
    // The neighbour can read what this rank has written even after this rank has failed.
    own.disown();
    tcp.attach(neighbour(side), std::make_unique<HostPipe>(std::move(own), std::move(other)));
  }
  NeighbourPipes pipes;
  for (int r = 0; r < (size > 2 ? size : size - 1); ++r) pipes.pairs += share(r, 0, facing(0));
  for (int first = 0; first < size; ++first) {  // of a row, perhaps
    int row = 1;
    while (row < size && share(wrap_rank(first + row - 1, size), 0, facing(0))) ++row;
    pipes.together = std::max(pipes.together, row);
  }
  return pipes;
}

}  // namespace detail

}}  // namespace lockstep
