#include "lockstep/collectives/protocol/authentication.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "lockstep/core/error.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep::detail;

TEST_SUITE("authentication") {
  TEST_CASE("nonces do not come again") {
    std::set<std::string> nonces;
    for (int i = 0; i < 1000; ++i) nonces.insert(make_nonce());
    CHECK(nonces.size() == 1000);
    for (const std::string& nonce : nonces) CHECK(nonce.size() == nonce_bytes);
  }

  TEST_CASE("the secret comes from the program, or from the environment") {
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
    CHECK_FALSE(ClusterSecret::given_or_from_environment("").is_set());
    ::setenv("LOCKSTEP_CLUSTER_SECRET", "", 1);
    CHECK_THROWS_WITH_AS((void)ClusterSecret::given_or_from_environment(""),
                         "LOCKSTEP_CLUSTER_SECRET is set, but empty; give all workers the same "
                         "secret, or unset it on "
                         "all of them",
                         ConfigurationError);
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
    ::setenv("LOCKSTEP_CLUSTER_SECRET", "from the environment", 1);
    const std::string proof = ClusterSecret("from the environment").prove("role", "said");
    CHECK(ClusterSecret::given_or_from_environment("").accepts(proof, "role", "said"));
    CHECK_FALSE(ClusterSecret::given_or_from_environment("from the program")
                    .accepts(proof, "role", "said"));
#endif
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
  }

  std::string refusal(const std::string& given = {}) {
    try {
      (void)ClusterSecret::given_or_from_environment(given);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return {};
  }

  TEST_CASE("a secret that can be guessed is refused, wherever it comes from") {
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
    const std::string remedy =
        " has 15 bytes, and fewer than 16 can be guessed; `openssl rand -hex 32` makes a good one";
    CHECK(refusal("fifteen letters") == "the cluster secret of Rendezvous::secret" + remedy);
    ::setenv("LOCKSTEP_CLUSTER_SECRET", "fifteen letters", 1);
    CHECK(refusal() == "the cluster secret of LOCKSTEP_CLUSTER_SECRET" + remedy);
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
  }

  TEST_CASE("the secret may stand in a file") {
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
    const lockstep_test::TemporaryFolder folder;
    const std::string path = folder.path("secret");
    const auto write = [&](std::string_view text) {
      std::ofstream(path, std::ios::binary) << text;
    };
    ::setenv("LOCKSTEP_CLUSTER_SECRET_FILE", path.c_str(), 1);
    CHECK(refusal().find("LOCKSTEP_CLUSTER_SECRET_FILE names '" + path +
                         "', which cannot be opened: ") == 0);
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
    const std::string proof = ClusterSecret("sixteen letters.").prove("role", "said");
    for (const char* end : {"", "\n", "\r\n"}) {
      write(std::string("sixteen letters.") + end);
      CHECK(ClusterSecret::given_or_from_environment("").accepts(proof, "role", "said"));
    }
    write("sixteen letters.\n\n");  // the last line end does not belong to it, the one before does
    CHECK_FALSE(ClusterSecret::given_or_from_environment("").accepts(proof, "role", "said"));
#endif
    write("short\n");
    CHECK(refusal().find("the cluster secret of LOCKSTEP_CLUSTER_SECRET_FILE has 5 bytes") == 0);
    write("\n");
    CHECK(refusal().find("which is empty") != std::string::npos);
    write(std::string(5000, 'x'));
    CHECK(refusal().find("is longer than 4096 bytes") != std::string::npos);
    std::filesystem::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(refusal().find("which is no regular file") != std::string::npos);
    ::setenv("LOCKSTEP_CLUSTER_SECRET_FILE", folder.path().c_str(), 1);
    CHECK(refusal().find("which is no regular file") != std::string::npos);
    ::setenv("LOCKSTEP_CLUSTER_SECRET", "from the environment", 1);
    CHECK(refusal().find("LOCKSTEP_CLUSTER_SECRET and LOCKSTEP_CLUSTER_SECRET_FILE are both set") ==
          0);
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET");
    ::setenv("LOCKSTEP_CLUSTER_SECRET_FILE", "", 1);
    CHECK(refusal().find("LOCKSTEP_CLUSTER_SECRET_FILE is set, but empty") == 0);
    ::unsetenv("LOCKSTEP_CLUSTER_SECRET_FILE");
  }

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

  TEST_CASE("a proof is HMAC-SHA256") {
    // printf 'caller\0said' | openssl dgst -sha256 -hmac key
    constexpr unsigned char expected[proof_bytes] = {
        0x19, 0xce, 0x65, 0x22, 0x4e, 0xd5, 0xb3, 0x1e, 0x23, 0x9c, 0xdd,
        0xe9, 0x46, 0xcd, 0xa6, 0x10, 0xe2, 0x64, 0x12, 0x8d, 0xa7, 0x26,
        0xf6, 0x7d, 0x30, 0x02, 0x21, 0xbf, 0xca, 0xeb, 0x8a, 0xc1};
    CHECK(ClusterSecret("key").prove("caller", "said") ==
          std::string(reinterpret_cast<const char*>(expected), sizeof expected));
  }

  TEST_CASE("a proof holds for one secret, one role and one transcript") {
    const ClusterSecret secret("correct horse battery staple");
    const std::string proof = secret.prove("caller", "transcript");
    CHECK(secret.accepts(proof, "caller", "transcript"));
    CHECK_FALSE(secret.accepts(proof, "callee", "transcript"));
    CHECK_FALSE(secret.accepts(proof, "caller", "transcripu"));
    CHECK_FALSE(
        ClusterSecret("correct horse battery stapl").accepts(proof, "caller", "transcript"));
    CHECK_FALSE(secret.accepts("", "caller", "transcript"));
    CHECK_FALSE(secret.accepts(proof.substr(1), "caller", "transcript"));
    for (std::size_t bit = 0; bit < 8 * proof_bytes; ++bit) {
      std::string other = proof;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      CHECK_FALSE(secret.accepts(other, "caller", "transcript"));
    }
  }

#else

  TEST_CASE("without OpenSSL a secret is refused, with the remedy") {
    std::string message;
    try {
      ClusterSecret secret("key");
    } catch (const ConfigurationError& error) {
      message = error.what();
    }
    for (const char* part : {"LOCKSTEP_CLUSTER_SECRET", "built without OpenSSL", "libssl-dev",
                             "LOCKSTEP_HAS_OPENSSL=1"})
      CHECK(message.find(part) != std::string::npos);
    CHECK(message.find("key") == std::string::npos);
    CHECK_NOTHROW(ClusterSecret(""));
  }

#endif
}
