// libFuzzer: what a stranger sends to a worker, and what a peer answers that a worker has called.
// The first byte picks the side, whether there is a secret, and the size of the pieces in which the
// rest arrives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/collectives/protocol/handshake.hpp"

using namespace lockstep::detail;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

Hello worker(int rank) {
  Hello hello;
  hello.from = rank;
  hello.incarnation = 77;
  hello.addresses = {"a:1", "b:2", "c:3"};
  hello.properties = {{"scalar", "float"}};
  return hello;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);

  Hello hello;
  if (Hello::decode(rest, hello)) {
    if (hello.version == Hello::this_version) demand(hello.encode() == rest);
    (void)difference(worker(0), hello);
  }

  const bool calls = data[0] & 1;
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
  const ClusterSecret secret(data[0] & 2 ? "secret" : "");
#else
  const ClusterSecret secret;
#endif
  const std::size_t piece = 1 + data[0] / 4;
  Handshake handshake = calls ? Handshake::caller(worker(1), secret, 0, Hello::Channel::data)
                              : Handshake::callee(worker(0), secret);
  while (!rest.empty() && handshake.outcome() == Handshake::Outcome::open) {
    handshake.sent(handshake.out().size());
    const std::size_t wanted = handshake.wanted();
    demand(wanted > 0 && wanted <= Hello::prefix_bytes + worker(0).longest_to_read());
    const std::size_t n = std::min({rest.size(), wanted, piece});
    handshake.take(rest.substr(0, n));
    rest.remove_prefix(n);
    demand(handshake.out().size() < 1000);
  }
  if (secret.is_set())
    demand(!handshake.is_authenticated() && handshake.outcome() != Handshake::Outcome::agreed);
  return 0;
}
