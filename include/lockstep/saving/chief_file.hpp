// Files that the chief reads and all workers receive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A file as the chief has it, or why it cannot be read.
struct FileContents {
  bool readable = true;
  std::vector<std::byte> bytes;  ///< or the message
};

/// Reads a file on the chief. A message begins with `call` and the path.
[[nodiscard]] FileContents read_contents(std::string_view call, const std::string& path,
                                         const HeadCheck& check, std::string_view none);

/// The message of an error that keeps the chief from reading.
[[nodiscard]] FileContents unreadable(const Error& error);

/// The call in which the workers exchange a file, and its arguments: "load", "'model.lockstep'".
struct FileCall {
  const char* name;  ///< must live as long as the program
  std::string arguments;
};

/// The chief's contents, on every worker. Throws DataError on every worker when the chief could not
/// read them, and ConfigurationError when the workers are not all in this call.
std::vector<std::byte> contents_from_chief(AnyStrategy& strategy, const FileCall& call,
                                           FileContents file);

/// The chief's file, on every worker; with parameter servers, each process's own. `check` is that
/// of read_file. `call` names the call, and lives as long as the program.
std::vector<std::byte> file_from_chief(AnyStrategy& strategy, const char* call,
                                       const std::string& path, const HeadCheck& check);

/// Calls f. An error's message gets `what` and the path in front, and keeps its type.
void naming_file(std::string_view what, const std::string& path, FunctionRef<void()> f);

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// TensorFlow's rule: the chief writes to `path`, worker i to `workertemp_i/` in the same folder.
/// Lockstep's functions need no such copies (the chief alone writes); this is for files that the
/// program itself writes.
/// Use: `write_filepath("run/table.csv", strategy)`.
template <Strategy S>
[[nodiscard]] std::string write_filepath(const std::string& path, const S& strategy) {
  if (strategy.is_chief()) return path;
  const std::size_t name = path.rfind('/') + 1;  // 0 without a folder
  return concat(
      {path.substr(0, name), "workertemp_", strategy.worker_index(), "/", path.substr(name)});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/chief_file.ipp"
#endif
