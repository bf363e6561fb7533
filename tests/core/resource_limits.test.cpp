#include "lockstep/core/resource_limits.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <string>

#include "support/messages.hpp"

using lockstep::limits_text;
using lockstep::Resource;
using lockstep_test::contains;

namespace {

/// A limit that is lower, while this lives.
class LoweredLimit {
 public:
  LoweredLimit(int which, rlim_t value) : which_(which) {
    ::getrlimit(resource(), &former_);
    const rlimit lower{.rlim_cur = value, .rlim_max = former_.rlim_max};
    REQUIRE(::setrlimit(resource(), &lower) == 0);
  }
  ~LoweredLimit() { ::setrlimit(resource(), &former_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  [[nodiscard]] __rlimit_resource resource() const {
    return static_cast<__rlimit_resource>(which_);
  }

  int which_;
  rlimit former_{};
};

}  // namespace

TEST_CASE("limits_text names the limits that are set") {
  {
    const LoweredLimit files(RLIMIT_FSIZE, 123'456'789);
    CHECK(limits_text(Resource::file_size) ==
          "; the limits are: RLIMIT_FSIZE (ulimit -f) in bytes 123456789");
  }
  {
    const LoweredLimit threads(RLIMIT_NPROC, 12'345);
    const std::string text = limits_text(Resource::threads);
    CAPTURE(text);
    CHECK(contains(
        text,
        "; the limits are: RLIMIT_NPROC (ulimit -u: processes and threads of this user) 12345"));
    CHECK_FALSE(contains(text, "FSIZE"));
  }
  {
    const LoweredLimit memory(RLIMIT_AS, rlim_t{1} << 52);
    CHECK(
        contains(limits_text(Resource::memory), "RLIMIT_AS (ulimit -v) in bytes 4503599627370496"));
  }
}
