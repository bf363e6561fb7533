// Certificates for TLS, made as a test needs them. Without OpenSSL, this header is empty.
#pragma once

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "lockstep/collectives/options.hpp"

namespace lockstep_test {

/// An authority that signs what it is asked to. Its files go into a folder.
class Authority {
 public:
  explicit Authority(const std::string& folder, const std::string& name = "authority")
      : folder_(folder), name_(name), key_(make_key()), certificate_(make(name, "CA:TRUE", 86400)) {
    write(certificate_.get(), file());
  }

  [[nodiscard]] std::string file() const { return folder_ + "/" + name_ + ".pem"; }

  /// A certificate for a DNS name, valid from an hour ago, and its key, in files that begin with
  /// `stem`.
  [[nodiscard]] lockstep::TlsFiles issue(const std::string& dns_name, const std::string& stem,
                                         long valid_seconds = 3600) const {
    const lockstep::TlsFiles files{.authority = file(),
                                   .certificate = folder_ + "/" + stem + ".pem",
                                   .key = folder_ + "/" + stem + ".key"};
    const Key key = make_key();
    write(make(dns_name, "CA:FALSE", valid_seconds, key.get()).get(), files.certificate);
    const File out = open(files.key);
    must(::PEM_write_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return files;
  }
  /// That of a rank.
  [[nodiscard]] lockstep::TlsFiles issue(int rank, long valid_seconds = 3600) const {
    const std::string name = "rank-" + std::to_string(rank);
    return issue(name + ".lockstep", name_ + "-" + name, valid_seconds);
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
  using Certificate = std::unique_ptr<X509, void (*)(X509*)>;
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  static void must(bool done) {
    if (!done) throw std::runtime_error("OpenSSL makes no certificate");
  }

  static File open(const std::string& name) {
    File file(std::fopen(name.c_str(), "w"), std::fclose);
    must(file != nullptr);
    return file;
  }
  static void write(X509* certificate, const std::string& name) {
    const File file = open(name);
    must(::PEM_write_X509(file.get(), certificate) == 1);
  }

  static Key make_key() {
    const std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX*)> making(
        ::EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nullptr), ::EVP_PKEY_CTX_free);
    EVP_PKEY* key = nullptr;
    must(making != nullptr && ::EVP_PKEY_keygen_init(making.get()) == 1 &&
         ::EVP_PKEY_keygen(making.get(), &key) == 1);
    return {key, ::EVP_PKEY_free};
  }

  /// Signed by this authority; of itself, if no other key is given.
  [[nodiscard]] Certificate make(const std::string& name, const std::string& constraints,
                                 long valid_seconds, EVP_PKEY* key = nullptr) const {
    Certificate made(::X509_new(), ::X509_free);
    static long serial = 1;
    X509_NAME* const subject = ::X509_get_subject_name(made.get());
    const auto add_name = [](X509_NAME* to, const std::string& text) {
      must(::X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC,
                                        reinterpret_cast<const unsigned char*>(text.c_str()), -1,
                                        -1, 0) == 1);
    };
    add_name(subject, name);
    must(::X509_set_version(made.get(), 2) == 1 &&
         ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), serial++) == 1 &&
         ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -7200) != nullptr &&
         ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), valid_seconds) != nullptr &&
         ::X509_set_issuer_name(
             made.get(), key == nullptr ? subject : ::X509_get_subject_name(certificate_.get())) ==
             1 &&
         ::X509_set_pubkey(made.get(), key == nullptr ? key_.get() : key) == 1);
    extend(made.get(), NID_basic_constraints, "critical," + constraints);
    if (key != nullptr) extend(made.get(), NID_subject_alt_name, "DNS:" + name);
    must(::X509_sign(made.get(), key_.get(), nullptr) > 0);
    return made;
  }
  static void extend(X509* certificate, int kind, const std::string& text) {
    const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
        ::X509V3_EXT_conf_nid(nullptr, nullptr, kind, text.c_str()), ::X509_EXTENSION_free);
    must(extension != nullptr && ::X509_add_ext(certificate, extension.get(), -1) == 1);
  }

  std::string folder_;
  std::string name_;
  Key key_;
  Certificate certificate_;
};

}  // namespace lockstep_test

#endif
