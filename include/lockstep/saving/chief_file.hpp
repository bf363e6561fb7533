// Files that the chief reads and all workers receive.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/strategies/concepts.hpp"
#include "lockstep/training/agreement.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A file as the chief has it, or why it cannot be read.
struct FileContents {
  bool readable = true;
  std::vector<std::byte> bytes;  ///< or the message
};

/// Reads a file on the chief. A message begins with `call` and the path.
[[nodiscard]] FileContents read_contents(std::string_view call, const std::string& path, const HeadCheck& check);

/// The message of an error that keeps the chief from reading.
[[nodiscard]] FileContents unreadable(const Error& error);

/// The call in which the workers exchange a file, and its arguments: "load", "'model.lockstep'".
struct FileCall {
  const char* name;  ///< must live as long as the program
  std::string arguments;
};

/// The chief's contents, on every worker. Throws DataError on every worker when the chief could not
/// read them, and ConfigurationError when the workers are not all in this call.
template <Strategy S>
std::vector<std::byte> contents_from_chief(S& strategy, const FileCall& call, FileContents file) {
  strategy.run([&](auto& replica) {
    const bool leader = replica.local_rank() == 0;
    auto& collective = replica.collective();
    const ActivityScope activity(leader ? activity_board(collective) : nullptr, {.call = call.name});
    agree(collective, call.name, {}, call.arguments);
    const bool readable = from_chief(collective, leader && file.readable);
    auto bytes = bytes_from_chief(collective, leader ? std::move(file.bytes) : std::vector<std::byte>{});
    if (leader) file = {readable, std::move(bytes)};
  });
  if (!file.readable) throw DataError(std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  return std::move(file.bytes);
}

/// The chief's file, on every worker; `check` is that of read_file. `call` names the call, and
/// lives as long as the program.
template <Strategy S>
std::vector<std::byte> file_from_chief(S& strategy, const char* call, const std::string& path, const HeadCheck& check) {
  return contents_from_chief(strategy, {call, "'" + path + "'"},
                             strategy.is_chief() ? read_contents(call, path, check) : FileContents{});
}

/// Calls f. An error's message gets `what` and the path in front, and keeps its type.
template <class F>
void naming_file(std::string_view what, const std::string& path, F&& f) {
  const auto message = [&](const Error& error) { return concat({what, " '", path, "': ", error.what()}); };
  try {
    f();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(message(error));
  } catch (const DataError& error) {
    throw DataError(message(error));
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/saving/chief_file.ipp"
#endif
