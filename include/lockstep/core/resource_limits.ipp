#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The content of a file of this process's control group, and of those above it: the lowest number;
/// empty when there is none.
[[nodiscard, gnu::cold]] inline std::string control_group_limit(const char* name) {
  std::ifstream groups("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) group = line.substr(3);
  std::string lowest;
  for (;;) {
    std::string value;
    std::ifstream("/sys/fs/cgroup" + group + "/" + name) >> value;
    const bool is_number =
        !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && (lowest.empty() || value.size() < lowest.size() ||
                      (value.size() == lowest.size() && value < lowest)))
      lowest = value;
    if (group.empty() || group == "/") return lowest;
    group.erase(group.rfind('/'));
  }
}

}  // namespace detail

LOCKSTEP_INLINE std::string limits_text(Resource resource) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += concat({text.empty() ? "; the limits are: " : ", ", name, " ", value});
  };
  const auto add_limit = [&](auto which, std::string_view name) {
    rlimit limit{};
    if (::getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      add(name, concat({static_cast<std::uint64_t>(limit.rlim_cur)}));
  };
  const auto add_group = [&](const char* name) {
    if (const std::string value = detail::control_group_limit(name); !value.empty())
      add(concat({name, " of the control group"}), value);
  };
  switch (resource) {
    case Resource::threads:
      add_limit(RLIMIT_NPROC, "RLIMIT_NPROC (ulimit -u: processes and threads of this user)");
      add_group("pids.max");
      add_limit(RLIMIT_AS, "RLIMIT_AS (ulimit -v) in bytes");  // a thread's stack
      break;
    case Resource::memory:
      add_limit(RLIMIT_AS, "RLIMIT_AS (ulimit -v) in bytes");
      add_limit(RLIMIT_DATA, "RLIMIT_DATA (ulimit -d) in bytes");
      add_group("memory.max");
      break;
    case Resource::file_size:
      add_limit(RLIMIT_FSIZE, "RLIMIT_FSIZE (ulimit -f) in bytes");
      break;
  }
  return text;
}

LOCKSTEP_INLINE std::string system_error_text(int code) {
  std::string text = std::strerror(code);
  rlimit limit{};
  if (code == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += concat({"; this process may have ", static_cast<std::uint64_t>(limit.rlim_cur),
                    " (RLIMIT_NOFILE): raise the limit (ulimit -n 1024)"});
  return text;
}

}}  // namespace lockstep
