// What an all-reduce cannot beat by much: its bytes moved, or added, by the plainest of means.
//
// benchmark_limits --policy exchange --bytes B... [--repetitions N]
//     two processes send B bytes to each other at once, over a TCP connection of the loopback
//     interface: what each rank of an all-reduce over two of B bytes does
// benchmark_limits --policy add --ranks 1 --bytes B... [--repetitions N]
//     a += b, of B bytes each, on one core
//
// Output: see ../all_reduce_timing.hpp.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <system_error>

#include "../all_reduce_timing.hpp"
#include "forked_ranks.hpp"
#include "lockstep/core/buffer.hpp"

namespace {

using benchmarks::TimingOptions;

template <class T>
T checked(T result) {
  if (result < 0) throw std::system_error(errno, std::generic_category());
  return result;
}

/// Both ends of a TCP connection.
std::array<int, 2> connect_to_self() {
  const int listener = checked(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  checked(bind(listener, any, size));
  checked(listen(listener, 1));
  checked(getsockname(listener, any, &size));
  const int client = checked(socket(AF_INET, SOCK_STREAM, 0));
  checked(connect(client, any, size));
  const int server = checked(accept(listener, nullptr, nullptr));
  close(listener);
  const int yes = 1;
  for (const int end : {client, server})
    checked(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
  return {client, server};
}

/// Bytes that a call has moved, 0 when it would have had to wait.
std::size_t moved(ssize_t result) {
  if (result < 0 && errno == EAGAIN) return 0;
  return static_cast<std::size_t>(checked(result));
}

/// Sends all of `bytes` and receives as many into the same place, which is what an all-reduce has,
/// at once.
void exchange_bytes(int connection, std::span<std::byte> bytes) {
  constexpr std::size_t piece = std::size_t{256} << 10;
  std::size_t sent = 0, received = 0;
  while (sent < bytes.size() || received < bytes.size()) {
    const auto out = bytes.subspan(sent, std::min(piece, bytes.size() - sent));
    const auto in = bytes.subspan(received, std::min(piece, bytes.size() - received));
    const std::size_t s =
        out.empty() ? 0
                    : moved(send(connection, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    const std::size_t r =
        in.empty() ? 0 : moved(recv(connection, in.data(), in.size(), MSG_DONTWAIT));
    sent += s;
    received += r;
    if (s > 0 || r > 0) continue;
    const int events = (out.empty() ? 0 : POLLOUT) | (in.empty() ? 0 : POLLIN);
    pollfd ready{connection, static_cast<short>(events), 0};
    checked(poll(&ready, 1, -1));
  }
}

int time_exchange(TimingOptions options) {
  options.ranks = 2;
  const std::array<int, 2> ends = connect_to_self();
  return benchmarks::fork_ranks(2, [&](int rank) {
    const int connection = ends[static_cast<std::size_t>(rank)];
    close(ends[static_cast<std::size_t>(1 - rank)]);
    for (const std::size_t bytes : options.bytes) {
      const lockstep::Buffer buffer(bytes);
      std::array<std::byte, 1> token{};
      benchmarks::time_operation(
          options, rank == 0, bytes, [&] { exchange_bytes(connection, token); },
          [&] {
            exchange_bytes(connection, {buffer.data(), bytes});
          });
    }
  });
}

void time_add(const TimingOptions& options) {
  for (const std::size_t bytes : options.bytes) {
    const lockstep::Buffer first(bytes), second(bytes);
    float* a = reinterpret_cast<float*>(first.data());
    const float* b = reinterpret_cast<const float*>(second.data());
    benchmarks::time_operation(
        options, true, bytes, [] {},
        [&] {
          for (std::size_t i = 0; i < bytes / sizeof(float); ++i) a[i] += b[i];
          asm volatile("" ::: "memory");  // each call is done
        });
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = TimingOptions::parse(argc, argv);
  if (options.policy == "exchange") return time_exchange(options);
  if (options.policy == "add") return time_add(options), 0;
  throw std::invalid_argument("--policy needs exchange or add");
} catch (const std::exception& error) {
  std::fprintf(stderr, "limits: %s\n", error.what());
  return 2;
}
