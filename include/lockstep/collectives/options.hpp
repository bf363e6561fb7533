// Options of the communication between ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The type of gradients on the wire. Sums are formed in float32 in any case, a status block is
/// never rounded, and all ranks hold equal bits.
enum class Wire : std::uint8_t {
  native,    ///< as they are
  bfloat16,  ///< float32's range, 8 bits of precision; half the bytes
  float16,   ///< IEEE half: 11 bits of precision; infinite beyond 65504, less precise below 6e-5
};

[[nodiscard]] constexpr const char* to_string(Wire wire) noexcept {
  return wire == Wire::bfloat16 ? "bfloat16" : wire == Wire::float16 ? "float16" : "native";
}

/// TLS 1.3 on every connection between workers, by OpenSSL. What two workers of one machine share
/// in memory does not leave it, and is not encrypted.
enum class Tls : std::uint8_t {
  off,  ///< as the environment variable LOCKSTEP_TLS says, which has these names; else none
  /// The key comes from the cluster's secret (see Rendezvous::secret), which all workers must have.
  /// A process that knows the secret may take any rank.
  pre_shared_key,
  /// Each worker has a certificate for its rank, and knows the authority that signs all of
  /// them: see TlsFiles. In an elastic world, whose ranks change, the rank that it has in the
  /// configured cluster.
  certificates,
};

[[nodiscard]] constexpr const char* to_string(Tls tls) noexcept {
  return tls == Tls::pre_shared_key ? "pre_shared_key"
         : tls == Tls::certificates ? "certificates"
                                    : "off";
}

/// The files of Tls::certificates, in PEM format. "{rank}" in a name stands for the worker's rank.
/// An empty name: that in the environment variable beside it.
struct TlsFiles {
  /// The certificate of the authority that has signed all workers' certificates, and no others:
  /// LOCKSTEP_TLS_AUTHORITY.
  std::string authority{};
  /// This worker's certificate, with intermediate ones, if any, behind it:
  /// LOCKSTEP_TLS_CERTIFICATE. It must have the DNS name "rank-N.lockstep" among its alternative
  /// names, N being the worker's rank.
  std::string certificate{};
  /// The certificate's private key, without a passphrase: LOCKSTEP_TLS_KEY.
  std::string key{};
};

/// How all_reduce goes about it. The result is the same to the last bit, unless a wire of half
/// precision rounds: gather sends all values as they are.
enum class CommunicationImplementation : std::uint8_t {
  automatic,  ///< gather for short arrays, ring for others
  ring,       ///< 2 (n - 1) / n of the array to the next rank, and as much from the previous one
  gather,     ///< every rank gets all values, in log2 n rounds, and sums them
};

[[nodiscard]] constexpr const char* to_string(CommunicationImplementation implementation) noexcept {
  switch (implementation) {
    case CommunicationImplementation::ring:
      return "ring";
    case CommunicationImplementation::gather:
      return "gather";
    case CommunicationImplementation::automatic:
      break;
  }
  return "automatic";
}

/// Whether gradients are reduced, by another thread, while backward still computes others (as
/// in PyTorch's DistributedDataParallel and in Horovod). The result is the same to the last bit.
enum class Overlap : std::uint8_t {
  off,
  /// Where there is a core to spare, or a wire that ranks wait for. Ranks then do not update shares
  /// of the parameters for each other (SharedMemory).
  on,
};

[[nodiscard]] constexpr const char* to_string(Overlap overlap) noexcept {
  return overlap == Overlap::on ? "on" : "off";
}

struct CommunicationOptions {
  CommunicationImplementation implementation = CommunicationImplementation::automatic;
  /// How long a rank that an operation waits for may be silent before it counts as lost: its
  /// process is stopped, or the network is cut. A busy rank is not silent: another thread
  /// answers for it. (Mpi and the threads of a process cannot be silent.)
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// How long an operation waits, without a single byte of progress, for a rank that lives: in a
  /// slow callback, or in a deadlock. Every 5 s the ranks that wait say which rank they wait for,
  /// and what it is doing. See progress_limit().
  std::chrono::milliseconds progress_timeout = std::chrono::minutes(10);
  /// How long the workers may take to find each other.
  std::chrono::milliseconds startup_timeout = std::chrono::minutes(5);
  /// Bytes that the ring combines, and passes on, at a time (rounded up to whole cache lines). 0:
  /// chosen by the library.
  std::int64_t bytes_per_pack = 0;
  /// The type of float gradients between workers; a float32 sum over a wire of half the bytes. Not
  /// between the threads of a process, and not for arrays that are short enough to be gathered.
  Wire wire = Wire::native;
  /// Each worker keeps the rounding error of a half-precision wire, and adds it to the gradients
  /// that it sends next (Seide et al., "1-Bit Stochastic Gradient Descent", 2014): small gradients
  /// then get through in time, instead of never. In fit and train_on_batch. Takes as much memory as
  /// the gradients; the residuals are in saved states, and begin as zeros with another number of
  /// workers and after a rejoin.
  bool error_feedback = false;
  Overlap overlap = Overlap::off;
  /// TCP's congestion control, such as "cubic" or "bbr". Empty: the system's.
  std::string congestion_control{};
  /// TCP connections for data between two ranks, at most 16. A long message is spread over them, so
  /// that on a link of much bandwidth and delay not one connection's window is the limit, nor one
  /// flow's share of bundled links. 0: chosen by the library, which is 1.
  int connections = 0;
  /// Whether messages over TCP carry a CRC-32C, so that bits that change on the way end the
  /// operation, with an error that names sender and receiver, before they are summed or passed on.
  /// (TCP's own sum of 16 bits misses one change in 65,536.) Off, because on the loopback interface
  /// it takes more than 3 % of the tutorial's step: see benchmarks/worker_steps.cpp.
  bool checksum = false;
  /// The IP address of this machine on which a worker listens over TCP, such as "10.0.0.1" or
  /// "fd00::1"; the workers need not have the same. Empty: the loopback interface where the
  /// worker's address belongs to it, else all interfaces.
  std::string bind_address{};
  /// Encryption of all connections between workers, equal on all of them. Off: as the environment
  /// variable LOCKSTEP_TLS says.
  Tls tls = Tls::off;
  /// For Tls::certificates.
  TlsFiles tls_files{};

  static constexpr int most_connections = 16;
  /// `connections`, or what the library chooses.
  [[nodiscard]] std::size_t data_connections() const noexcept {
    return connections > 0 ? static_cast<std::size_t>(connections) : 1;
  }

  /// The limit that applies: a rank that answers has at least as much time as one that does not.
  [[nodiscard]] std::chrono::milliseconds progress_limit() const noexcept {
    return std::max(timeout, progress_timeout);
  }

  /// Throws ConfigurationError when an option makes no sense.
  void validate() const {
    check("timeout", timeout);
    check("progress_timeout", progress_timeout);
    check("startup_timeout", startup_timeout);
    if (bytes_per_pack < 0)
      throw ConfigurationError(concat(
          {"CommunicationOptions::bytes_per_pack must be 0 (chosen by the library) or more, got ",
           bytes_per_pack}));
    if (error_feedback && wire == Wire::native)
      throw ConfigurationError(
          "CommunicationOptions::error_feedback is for a wire that rounds: set wire to "
          "Wire::bfloat16 or Wire::float16");
    if (connections < 0 || connections > most_connections)
      throw ConfigurationError(
          concat({"CommunicationOptions::connections must be 0 (chosen by the library) to ",
                  most_connections, ", got ", connections}));
  }

 private:
  [[gnu::cold]] static void check(const char* name, std::chrono::milliseconds value) {
    if (value.count() > 0) return;
    throw ConfigurationError(concat(
        {"CommunicationOptions::", name, " must be at least 1 ms, got ", value.count(), " ms"}));
  }
};

}}  // namespace lockstep
