// What a certificate says, in words. Without OpenSSL, this header is empty.
#pragma once

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Names in full, and only among the alternative ones.
inline constexpr unsigned certificate_name_flags =
    X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;

[[nodiscard, gnu::cold]] inline bool is_certificate_of(X509* certificate,
                                                       const TlsIdentity& identity) {
  const std::string name = identity.dns_name();
  return ::X509_check_host(certificate, name.data(), name.size(), certificate_name_flags,
                           nullptr) == 1;
}

/// "rank-1.lockstep, rank-2.lockstep"
[[nodiscard, gnu::cold]] inline std::string names_in(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(
          ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      ::GENERAL_NAMES_free);
  std::string text;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const std::string_view dns(
        reinterpret_cast<const char*>(::ASN1_STRING_get0_data(name->d.dNSName)),
        static_cast<std::size_t>(::ASN1_STRING_length(name->d.dNSName)));
    text += concat({text.empty() ? "" : ", ", printable(dns, 100)});
  }
  return text.empty() ? "no DNS name" : printable(text, 300);
}

/// "Nov 22 21:00:00 2026 GMT"
[[nodiscard, gnu::cold]] inline std::string time_text(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(::BIO_new(::BIO_s_mem()), ::BIO_free);
  char* bytes = nullptr;
  if (text == nullptr || ::ASN1_TIME_print(text.get(), time) != 1) return "an unknown time";
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

/// Why a certificate is not accepted (`error` is one of X509_V_ERR_*), as the end of "a certificate
/// that ...".
[[nodiscard, gnu::cold]] inline std::string certificate_fault(int error, const X509* certificate) {
  if (error == X509_V_ERR_CERT_HAS_EXPIRED && certificate != nullptr)
    return concat({"has expired, by this machine's clock (it was valid until ",
                   time_text(::X509_get0_notAfter(certificate)), "); make a new one"});
  if (error == X509_V_ERR_CERT_NOT_YET_VALID && certificate != nullptr)
    return concat({"is not valid before ", time_text(::X509_get0_notBefore(certificate)),
                   "; is this machine's clock right?"});
  return concat({"is not accepted (", ::X509_verify_cert_error_string(error),
                 "); the authority of LOCKSTEP_TLS_AUTHORITY must have signed it"});
}

/// What OpenSSL says of the last error of this thread.
[[nodiscard, gnu::cold]] inline std::string openssl_reason() {
  const char* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return reason != nullptr ? reason : "OpenSSL gives no reason";
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
