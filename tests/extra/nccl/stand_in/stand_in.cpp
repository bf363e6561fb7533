#include "stand_in.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "nccl.h"

namespace {

constexpr std::size_t chunk = std::size_t{64} << 10;  // bytes
constexpr int most_ranks = 8;

std::atomic<int> live = 0;
std::atomic<long> numbers = 0;
thread_local int device = 0;
thread_local bool in_group = false;

// --- memory --------------------------------------------------------------------------------------

struct Block {
  std::size_t size;
  char* inside;  // where the device reaches it
  cudaMemoryType type;
};
std::mutex blocks_mutex;
std::map<const char*, Block> blocks;

// With the block's begin; nullptr when there is none.
const std::pair<const char* const, Block>* find(const void* pointer) {
  const std::lock_guard lock(blocks_mutex);
  auto it = blocks.upper_bound(static_cast<const char*>(pointer));
  if (it == blocks.begin()) return nullptr;
  --it;
  return static_cast<const char*>(pointer) < it->first + it->second.size ? &*it : nullptr;
}

// Where the device finds it; nullptr if it cannot.
char* inside(const void* pointer) {
  const auto* block = find(pointer);
  return block == nullptr
             ? nullptr
             : block->second.inside + (static_cast<const char*>(pointer) - block->first);
}

cudaError_t allocate(void** pointer, std::size_t size, cudaMemoryType type) {
  const int file = ::memfd_create("stand-in", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0)
    return cudaErrorMemoryAllocation;
  const auto map = [&](int rights) { return ::mmap(nullptr, size, rights, MAP_SHARED, file, 0); };
  void* const outside = map(type == cudaMemoryTypeDevice ? PROT_NONE : PROT_READ | PROT_WRITE);
  void* const within = type == cudaMemoryTypeDevice ? map(PROT_READ | PROT_WRITE) : outside;
  ::close(file);
  if (outside == MAP_FAILED || within == MAP_FAILED) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(blocks_mutex);
  blocks[static_cast<char*>(outside)] = {size, static_cast<char*>(within), type};
  ++live;
  *pointer = outside;
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  const std::lock_guard lock(blocks_mutex);
  const auto it = blocks.find(static_cast<char*>(pointer));
  if (it == blocks.end()) return cudaErrorIllegalAddress;
  ::munmap(pointer, it->second.size);
  if (it->second.inside != pointer) ::munmap(it->second.inside, it->second.size);
  blocks.erase(it);
  --live;
  return cudaSuccess;
}

// --- work ----------------------------------------------------------------------------------------

struct Lane {
  std::atomic<std::uint64_t> posted, taken;  // chunks
  std::atomic<int> device;
  std::array<char, chunk> data;
};
struct Shared {
  std::atomic<int> joined;
  std::array<Lane, most_ranks> lanes;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Each rank posts its bytes, chunk by chunk, and takes what it wants of those of all.
struct Work {
  ncclComm* communicator;
  const char* send;
  std::size_t bytes;
  std::function<void(std::size_t offset, std::size_t count)> take;
  bool never_ends = false;
  std::size_t offset = 0;
  bool posted = false;
};

stand_in::Kind fault_in(const char* call, int rank) {
  const bool here = stand_in::fault.call == call && stand_in::fault.rank == rank;
  const stand_in::Kind kind = here ? stand_in::fault.kind : stand_in::Kind::none;
  while (kind == stand_in::Kind::never_returns) std::this_thread::sleep_for(std::chrono::hours(1));
  return kind;
}

}  // namespace

struct CUstream_st {
  std::deque<Work> works;
};

struct ncclComm {
  Shared* shared;
  int rank, size;
  int file;  // of rank 0
  ncclResult_t state = ncclInProgress;
  bool never_ready = false;
  bool breaks = false;
  std::uint64_t chunks = 0;
  CUstream_st* stream = nullptr;
  std::vector<Work> begun{};  // not yet on the stream

  [[nodiscard]] bool all(std::atomic<std::uint64_t> Lane::*count, std::uint64_t least) const {
    return std::all_of(shared->lanes.begin(), shared->lanes.begin() + size,
                       [&](const Lane& lane) { return lane.*count >= least; });
  }
};

namespace {

// Returns whether it has ended.
bool advance(Work& work) {
  ncclComm& own = *work.communicator;
  while (!work.never_ends) {
    Lane& lane = own.shared->lanes[static_cast<std::size_t>(own.rank)];
    const std::size_t count = std::min(chunk, work.bytes - work.offset);
    if (!work.posted) {
      if (!own.all(&Lane::taken, own.chunks)) return false;
      if (work.send != nullptr) std::memcpy(lane.data.data(), work.send + work.offset, count);
      lane.posted = own.chunks + 1;
      work.posted = true;
    }
    if (!own.all(&Lane::posted, own.chunks + 1)) return false;
    work.take(work.offset, count);
    lane.taken = ++own.chunks;
    work.posted = false;
    work.offset += count;
    if (work.offset == work.bytes) return true;
  }
  return false;
}

template <class T>
T combine(const ncclComm& own, ncclRedOp_t op, std::size_t index) {
  T result{};
  for (int rank = 0; rank < own.size; ++rank) {
    T value;
    std::memcpy(&value, own.shared->lanes[static_cast<std::size_t>(rank)].data.data() + index,
                sizeof value);
    if (rank == 0)
      result = value;
    else
      result = op == ncclSum ? static_cast<T>(result + value) : std::max(result, value);
  }
  return result;
}

// What lies at [offset, offset + count) of all ranks' bytes, combined, goes to `to`, whose begin is
// at `begin` and whose size is `size`.
template <class T>
void combine(const ncclComm& own, ncclRedOp_t op, std::size_t offset, std::size_t count, char* to,
             std::size_t begin, std::size_t size) {
  for (std::size_t i = 0; i < count; i += sizeof(T)) {
    if (offset + i < begin || offset + i >= begin + size) continue;
    const T value = combine<T>(own, op, i);
    std::memcpy(to + (offset + i - begin), &value, sizeof value);
  }
}
void combine(const ncclComm& own, ncclDataType_t type, ncclRedOp_t op, std::size_t offset,
             std::size_t count, char* to, std::size_t begin, std::size_t size) {
  if (type == ncclFloat32) return combine<float>(own, op, offset, count, to, begin, size);
  if (type == ncclFloat64) return combine<double>(own, op, offset, count, to, begin, size);
  combine<std::int64_t>(own, op, offset, count, to, begin, size);
}

std::size_t size_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : 8;
}

template <class Take>
ncclResult_t begin(const char* call, ncclComm_t own, const char* send, std::size_t bytes,
                   const char* receive, cudaStream_t stream, Take take) {
  using enum stand_in::Kind;
  const stand_in::Kind kind = fault_in(call, own->rank);
  if (kind == fails) return ncclSystemError;
  const bool goes_on = in_group && !own->begun.empty();
  if ((own->state != ncclSuccess && !goes_on) || receive == nullptr) return ncclInvalidUsage;
  own->never_ready |= kind == never_ready;
  own->breaks |= kind == breaks;
  own->stream = stream;
  own->begun.push_back({own, send, bytes, take, kind == never_ends});
  return own->state = ncclInProgress;
}

}  // namespace

namespace stand_in {
int live_objects() { return live; }
long numbers_moved() { return numbers; }
}  // namespace stand_in

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = stand_in::devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  device = number;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = new CUstream_st;
  ++live;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (fault_in("cudaStreamQuery", device) == stand_in::Kind::fails) return cudaErrorIllegalAddress;
  while (!stream->works.empty() && advance(stream->works.front())) stream->works.pop_front();
  return stream->works.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  --live;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned int) {
  if (fault_in("cudaHostAlloc", device) == stand_in::Kind::fails) return cudaErrorMemoryAllocation;
  return allocate(pointer, size, cudaMemoryTypeHost);
}
cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }
cudaError_t cudaMalloc(void** pointer, size_t size) {
  return allocate(pointer, size, cudaMemoryTypeDevice);
}
cudaError_t cudaFree(void* pointer) { return release(pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t count, enum cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice)
    std::memcpy(inside(to), from, count);
  else
    std::memcpy(to, inside(from), count);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes,
                                     const void* pointer) {
  const auto* block = find(pointer);
  attributes->type = block == nullptr ? cudaMemoryTypeUnregistered : block->second.type;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                            : "no error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (fault_in("ncclGetUniqueId", 0) == stand_in::Kind::fails) return ncclSystemError;
  const int file = ::memfd_create("stand-in", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) return ncclSystemError;
  std::snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", ::getpid(), file);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const stand_in::Kind kind = fault_in("ncclCommInitRankConfig", rank);
  if (kind == stand_in::Kind::fails) return ncclSystemError;
  if (config->blocking != 0 || size > most_ranks) return ncclInvalidUsage;
  const int file = ::open(id.internal, O_RDWR | O_CLOEXEC);
  if (file < 0) return ncclSystemError;
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  int own_file = -1;
  if (rank == 0) std::sscanf(id.internal, "/proc/%*d/fd/%d", &own_file);
  ++live;
  *communicator = new ncclComm{static_cast<Shared*>(memory), rank, size, own_file};
  (*communicator)->never_ready = kind == stand_in::Kind::never_ready;
  if (kind == stand_in::Kind::never_ready) return ncclInProgress;
  Shared& shared = *(*communicator)->shared;
  shared.lanes[static_cast<std::size_t>(rank)].device = device;
  ++shared.joined;
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t own) {
  fault_in("ncclCommAbort", own->rank);
  if (own->stream != nullptr) own->stream->works.clear();
  ::munmap(own->shared, sizeof(Shared));
  if (own->file >= 0) ::close(own->file);
  delete own;
  --live;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t own, ncclResult_t* result) {
  *result = own->state;
  if (own->state != ncclInProgress || own->never_ready || own->shared->joined < own->size)
    return ncclSuccess;
  const auto lanes = own->shared->lanes.begin();
  for (int one = 0; one < own->size; ++one)
    for (int other = 0; other < one; ++other)
      if (lanes[one].device == lanes[other].device) own->state = ncclInvalidUsage;
  if (own->state == ncclInProgress) own->state = own->breaks ? ncclRemoteError : ncclSuccess;
  if (own->state == ncclSuccess && own->stream != nullptr)
    for (Work& work : own->begun) own->stream->works.push_back(std::move(work));
  own->begun.clear();
  return ncclSuccess;  // and the new state the next time
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError    ? "remote process exited or there was a network error"
         : result == ncclInvalidUsage ? "invalid usage"
                                      : "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) { return "what NCCL said last"; }

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t own, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  numbers += static_cast<long>(count);
  char* const to = inside(receive);
  return begin("ncclReduce", own, inside(send), bytes, to, stream,
               [=](std::size_t offset, std::size_t n) {
                 if (own->rank == root) combine(*own, type, op, offset, n, to, 0, bytes);
               });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t own, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  numbers += static_cast<long>(count);
  char* const to = inside(receive);
  return begin(
      "ncclAllReduce", own, inside(send), bytes, to, stream,
      [=](std::size_t offset, std::size_t n) { combine(*own, type, op, offset, n, to, 0, bytes); });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t own, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  numbers += static_cast<long>(count);
  char* const to = inside(receive);
  return begin("ncclReduceScatter", own, inside(send), bytes * static_cast<std::size_t>(own->size),
               to, stream, [=](std::size_t offset, std::size_t n) {
                 combine(*own, type, op, offset, n, to, bytes * static_cast<std::size_t>(own->rank),
                         bytes);
               });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t own, cudaStream_t stream) {
  numbers += static_cast<long>(count);
  char* const to = inside(receive);
  return begin("ncclBroadcast", own, own->rank == root ? inside(send) : nullptr,
               count * size_of(type), to, stream, [=](std::size_t offset, std::size_t n) {
                 const auto& from = own->shared->lanes[static_cast<std::size_t>(root)].data;
                 std::memcpy(to + offset, from.data(), n);
               });
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t own, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  numbers += static_cast<long>(count);
  char* const to = inside(receive);
  return begin("ncclAllGather", own, inside(send), bytes, to, stream,
               [=](std::size_t offset, std::size_t n) {
                 for (std::size_t r = 0; r < static_cast<std::size_t>(own->size); ++r)
                   std::memcpy(to + r * bytes + offset, own->shared->lanes[r].data.data(), n);
               });
}

ncclResult_t ncclGroupStart() {
  in_group = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  in_group = false;
  return ncclInProgress;
}

}  // extern "C"
