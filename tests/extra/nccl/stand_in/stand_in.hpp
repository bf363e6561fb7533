// A stand-in for libnccl and libcudart, between threads or processes of one machine, without a
// device. It is as strict as the real ones: a communicator that is in progress takes no call, what
// it has begun is on the stream only afterwards, the host cannot touch a device's memory, nor the
// device memory of the host that is not pinned, and no two ranks have one device.
#pragma once

#include <string>

namespace stand_in {

enum class Kind {
  none,
  fails,          // the call returns an error
  never_ready,    // after the call, the communicator stays in progress
  never_ends,     // what the call begins does not end
  breaks,         // what the call begins becomes an asynchronous error
  never_returns,  // the call
};

/// What is to go wrong, in a call of that name on that rank (for CUDA: on that device).
struct Fault {
  std::string call{};
  int rank = 0;
  Kind kind = Kind::none;
};
inline Fault fault;

inline int devices = 8;

/// Communicators, streams and blocks of memory that have not been freed.
int live_objects();

/// Numbers that NCCL's calls were given, of this process.
long numbers_moved();

}  // namespace stand_in
