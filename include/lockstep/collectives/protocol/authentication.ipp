#pragma once

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::string make_nonce() {
  std::string nonce(nonce_bytes, '\0');
  if (::getentropy(nonce.data(), nonce.size()) != 0)
    throw Error(concat(
        {"the operating system gives no random bytes (getentropy): ", std::strerror(errno)}));
  return nonce;
}

/// Reads the secret in a file. `name`: the variable that names it.
LOCKSTEP_INLINE std::string read_secret(const char* name, const char* path) {
  const auto refuse = [&](std::string_view why) {
    return ConfigurationError(concat({name, " names '", path, "', which ", why}));
  };
  constexpr std::size_t longest = 4096;
  // Without waiting for a writer, if it is a pipe.
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) throw refuse(concat({"cannot be opened: ", std::strerror(errno)}));
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))
    throw refuse("is no regular file");
  std::string secret(longest + 1, '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), secret.data() + size, secret.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw refuse(concat({"cannot be read: ", std::strerror(errno)}));
    size += static_cast<std::size_t>(n);
    if (size > longest) throw refuse(concat({"is longer than ", longest, " bytes"}));
    if (n == 0) break;
  }
  secret.resize(size);
  if (!secret.empty() && secret.back() == '\n') secret.pop_back();
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.empty()) throw refuse("is empty");
  return secret;
}

LOCKSTEP_INLINE ClusterSecret ClusterSecret::given_or_from_environment(const std::string& given) {
  constexpr const char* variable = "LOCKSTEP_CLUSTER_SECRET";
  constexpr const char* file_variable = "LOCKSTEP_CLUSTER_SECRET_FILE";
  const char* const text = std::getenv(variable);
  const char* const path = std::getenv(file_variable);
  std::string secret = given;
  const char* source = "Rendezvous::secret";
  if (given.empty()) {
    if (text == nullptr && path == nullptr) return {};
    if (text != nullptr && path != nullptr)
      throw ConfigurationError(
          concat({variable, " and ", file_variable,
                  " are both set; unset one of them, so that it is clear which secret holds"}));
    source = text != nullptr ? variable : file_variable;
    if (*(text != nullptr ? text : path) == '\0')
      throw ConfigurationError(concat(
          {source,
           " is set, but empty; give all workers the same secret, or unset it on all of them"}));
    secret = text != nullptr ? text : read_secret(file_variable, path);
  }
  if (secret.size() < shortest)
    throw ConfigurationError(
        concat({"the cluster secret of ", source, " has ", secret.size(), " bytes, and fewer than ",
                shortest, " can be guessed; `openssl rand -hex 32` makes a good one"}));
  return ClusterSecret(std::move(secret));
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

LOCKSTEP_INLINE ClusterSecret::ClusterSecret(std::string secret) : secret_(std::move(secret)) {}

LOCKSTEP_INLINE std::string ClusterSecret::prove(std::string_view role,
                                                 std::string_view transcript) const {
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
  return proof.size() == expected.size() &&
         ::CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

LOCKSTEP_INLINE std::string ClusterSecret::derive(std::string_view purpose) const {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  constexpr std::string_view salt = "lockstep";
  std::string key(32, '\0');
  std::size_t size = key.size();
  const std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX*)> hkdf(
      ::EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), ::EVP_PKEY_CTX_free);
  if (hkdf == nullptr || ::EVP_PKEY_derive_init(hkdf.get()) != 1 ||
      EVP_PKEY_CTX_set_hkdf_md(hkdf.get(), ::EVP_sha256()) != 1 ||
      EVP_PKEY_CTX_set1_hkdf_salt(hkdf.get(), bytes(salt), static_cast<int>(salt.size())) != 1 ||
      EVP_PKEY_CTX_set1_hkdf_key(hkdf.get(), bytes(secret_), static_cast<int>(secret_.size())) !=
          1 ||
      EVP_PKEY_CTX_add1_hkdf_info(hkdf.get(), bytes(purpose), static_cast<int>(purpose.size())) !=
          1 ||
      ::EVP_PKEY_derive(hkdf.get(), reinterpret_cast<unsigned char*>(key.data()), &size) != 1 ||
      size != key.size())
    throw Error("OpenSSL computes no HKDF-SHA256");
  return key;
}

#else

LOCKSTEP_INLINE ClusterSecret::ClusterSecret(std::string secret) {
  if (secret.empty()) return;
  throw ConfigurationError(
      "a cluster secret is set (LOCKSTEP_CLUSTER_SECRET), and this program was built without "
      "OpenSSL, so that it can neither prove that it knows it nor see whether others do. Either "
      "unset it on all workers, or install OpenSSL's libcrypto (Debian, Ubuntu: apt-get install "
      "libssl-dev), define LOCKSTEP_HAS_OPENSSL=1 and link ssl and crypto, which lockstep's CMake "
      "target does when it finds OpenSSL");
}

// There is no secret to prove, or to accept a proof of.
LOCKSTEP_INLINE std::string ClusterSecret::prove(std::string_view, std::string_view) const {
  throw Error("no cluster secret");
}
LOCKSTEP_INLINE bool ClusterSecret::accepts(std::string_view, std::string_view,
                                            std::string_view) const {
  return false;
}
LOCKSTEP_INLINE std::string ClusterSecret::derive(std::string_view) const {
  throw Error("no cluster secret");
}

#endif

}}}  // namespace lockstep::detail
