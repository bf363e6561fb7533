#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/authentication.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string make_nonce() {
  std::string nonce(nonce_bytes, '\0');  // up to 256 bytes come in one piece
  ssize_t got = -1;
  do got = ::getrandom(nonce.data(), nonce.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(nonce.size()))
    throw Error(concat({"the operating system gives no random bytes (getrandom): ", std::strerror(errno)}));
  return nonce;
}

LOCKSTEP_INLINE ClusterSecret ClusterSecret::given_or_from_environment(const std::string& given) {
  if (!given.empty()) return ClusterSecret(given);
  const char* text = std::getenv("LOCKSTEP_CLUSTER_SECRET");
  if (text == nullptr) return {};
  if (*text == '\0')
    throw ConfigurationError(
        "LOCKSTEP_CLUSTER_SECRET is set, but empty; give all workers the same secret, or unset it on all of them");
  return ClusterSecret(text);
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

LOCKSTEP_INLINE ClusterSecret::ClusterSecret(std::string secret) : secret_(std::move(secret)) {}

LOCKSTEP_INLINE std::string ClusterSecret::prove(std::string_view role, std::string_view transcript) const {
  std::string data(role);
  data += '\0';
  data += transcript;
  std::string proof(proof_bytes, '\0');
  unsigned length = 0;
  if (::HMAC(::EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
             reinterpret_cast<const unsigned char*>(data.data()), data.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &length) == nullptr ||
      length != proof_bytes)
    throw Error("OpenSSL computes no HMAC-SHA256");
  return proof;
}

LOCKSTEP_INLINE bool ClusterSecret::accepts(std::string_view proof, std::string_view role,
                                            std::string_view transcript) const {
  const std::string expected = prove(role, transcript);
  return proof.size() == expected.size() && ::CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

#else

LOCKSTEP_INLINE ClusterSecret::ClusterSecret(std::string secret) {
  if (secret.empty()) return;
  throw ConfigurationError(
      "a cluster secret is set (LOCKSTEP_CLUSTER_SECRET), and this program was built without OpenSSL, so that it can "
      "neither "
      "prove that it knows it nor see whether others do. Either unset it on all workers, or install OpenSSL's "
      "libcrypto "
      "(Debian, Ubuntu: apt-get install libssl-dev), define LOCKSTEP_HAS_OPENSSL=1 and link crypto, which lockstep's "
      "CMake "
      "target does when it finds OpenSSL");
}

// There is no secret to prove, or to accept a proof of.
LOCKSTEP_INLINE std::string ClusterSecret::prove(std::string_view, std::string_view) const {
  throw Error("no cluster secret");
}
LOCKSTEP_INLINE bool ClusterSecret::accepts(std::string_view, std::string_view, std::string_view) const {
  return false;
}

#endif

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
