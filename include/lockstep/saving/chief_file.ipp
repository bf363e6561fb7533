#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "lockstep/core/activity.hpp"
#include "lockstep/saving/chief_file.hpp"
#include "lockstep/training/agreement.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void naming_file(std::string_view what, const std::string& path,
                                 FunctionRef<void()> f) {
  const auto message = [&](const Error& error) {
    return concat({what, " ", in_quotes(path), ": ", error.what()});
  };
  try {
    f();
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(message(error));
  } catch (const DataError& error) {
    throw DataError(message(error));
  }
}

LOCKSTEP_INLINE FileContents unreadable(const Error& error) {
  const auto text = std::as_bytes(std::span(std::string_view(error.what())));
  return {.readable = false, .bytes = {text.begin(), text.end()}};
}

LOCKSTEP_INLINE FileContents read_contents(std::string_view call, const std::string& path,
                                           const HeadCheck& check, std::string_view none) {
  const HeadCheck naming = [&](std::span<const std::byte> head, std::uint64_t size) {
    naming_file(call, path, [&] { check(head, size); });
  };
  try {
    auto bytes = read_file(path, naming);
    if (!bytes) throw DataError(concat({"cannot read ", in_quotes(path), ": ", none}));
    return {.readable = true, .bytes = std::move(*bytes)};
  } catch (const Error& error) {
    return unreadable(error);
  }
}

LOCKSTEP_INLINE std::vector<std::byte> contents_from_chief(AnyStrategy& strategy,
                                                           const FileCall& call,
                                                           FileContents file) {
  strategy.run([&](AnyReplica& replica) {
    const bool leader = replica.local_rank() == 0;
    auto& collective = replica.collective();
    const ActivityScope activity(leader ? collective.board() : nullptr, {.call = call.name});
    agree(replica, call.name, {}, call.arguments);
    const bool readable = from_chief(collective, leader && file.readable);
    auto bytes =
        bytes_from_chief(collective, leader ? std::move(file.bytes) : std::vector<std::byte>{});
    if (leader) file = {readable, std::move(bytes)};
  });
  if (!file.readable)
    throw DataError(
        std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  return std::move(file.bytes);
}

LOCKSTEP_INLINE std::vector<std::byte> file_from_chief(AnyStrategy& strategy, const char* call,
                                                       const std::string& path,
                                                       const HeadCheck& check) {
  FileContents file;
  if (strategy.has_parameter_servers())  // its processes have no collective operations
    file = read_contents(call, path, check,
                         "this process has no such file; with parameter servers, each process "
                         "reads it: put it where all find it");
  else if (strategy.is_chief())
    file = read_contents(
        call, path, check,
        strategy.num_workers() > 1 ? "the chief has no such file" : "there is no such file");
  return contents_from_chief(strategy, {call, in_quotes(path)}, std::move(file));
}

}}}  // namespace lockstep::detail
