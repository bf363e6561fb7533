#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/growing_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE GrowingFile::GrowingFile(std::string path)
    : path_(std::move(path)), descriptor_(-1) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(
        concat({"cannot make the folder ", in_quotes(folder.string()), ": ", error.message()}));
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot open");
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode))
    size_ = static_cast<std::uint64_t>(status.st_size);
}

LOCKSTEP_INLINE GrowingFile::~GrowingFile() {
  if (descriptor_ < 0) return;
  try {
    flush();
  } catch (const Error&) {  // a destructor cannot tell the caller
  }
  ::close(descriptor_);
}

LOCKSTEP_INLINE void GrowingFile::write(std::string_view bytes) {
  constexpr std::size_t most = std::size_t{1} << 16;
  buffer_ += bytes;
  if (buffer_.size() >= most) flush();
}

LOCKSTEP_INLINE void GrowingFile::flush() {
  const std::string bytes =
      std::exchange(buffer_, {});  // a failure is not tried again by the destructor
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    rest.remove_prefix(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
}

LOCKSTEP_INLINE void GrowingFile::truncate(std::uint64_t size) {
  flush();
  if (size >= size_) return;
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) == 0)
    size_ = size;
  else if (errno != EINVAL)
    fail("cannot shorten");
}

LOCKSTEP_INLINE void GrowingFile::close() {
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close");
}

LOCKSTEP_INLINE void GrowingFile::fail(std::string_view what) const {
  const int code = errno;
  throw Error(concat({what, " ", in_quotes(path_), ": ", std::strerror(code),
                      code == EFBIG ? limits_text(Resource::file_size) : ""}));
}

}}}  // namespace lockstep::detail
