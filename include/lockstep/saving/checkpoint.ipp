#pragma once

#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/checkpoint.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void check_objects(std::size_t found, std::size_t expected) {
  if (found == expected) return;
  if (found == 0)
    throw ConfigurationError(concat(
        {"the file has a model alone, as Model::save, ModelCheckpoint and BackupAndRestore write "
         "it, this checkpoint has ",
         expected,
         " objects beside its model: restore the file by a Checkpoint(model), without objects"}));
  throw ConfigurationError(concat({"the file has the states of ", found,
                                   " objects beside the model, this checkpoint has ", expected}));
}

LOCKSTEP_INLINE ManagedFolder::ManagedFolder(CheckpointManagerOptions options, bool is_chief)
    : is_sharded_(options.sharded) {
  options.validate();
  if (is_chief) folder_.emplace(std::move(options));
}

LOCKSTEP_INLINE bool ManagedFolder::due(std::int64_t updates) const noexcept {
  return folder_ && folder_->due(updates);
}

LOCKSTEP_INLINE std::string ManagedFolder::save(const TrainingState& state,
                                                std::optional<std::int64_t> number) {
  return folder_->save(state, number);
}

LOCKSTEP_INLINE std::optional<std::string> ManagedFolder::save_sharded(
    AnyStrategy& strategy, std::int64_t updates, std::optional<std::int64_t> number,
    FunctionRef<void(const std::string& path)> write) {
  check_has_shares("CheckpointManager",
                   !strategy.has_parameter_servers() && strategy.elastic_world() == nullptr);
  FileContents path;
  try {
    if (due(updates)) {
      const std::string next = folder_->begin_save(number);
      const auto text = std::as_bytes(std::span(next));
      path.bytes.assign(text.begin(), text.end());
    }
  } catch (const Error& error) {
    path = unreadable(error);
  }
  const std::vector<std::byte> bytes = contents_from_chief(
      strategy, {.name = "CheckpointManager::save", .arguments = {}}, std::move(path));
  if (bytes.empty()) return std::nullopt;
  const std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  write(name);
  std::erase(unreadable_, name);
  if (!folder_) return std::nullopt;
  folder_->end_save(name, updates);
  return name;
}

LOCKSTEP_INLINE void ManagedFolder::pass_over(const std::string& path, std::string_view why) {
  if (folder_) log_warning(concat({"skipping the checkpoint ", in_quotes(path), ": ", why}));
  unreadable_.push_back(path);
}

LOCKSTEP_INLINE ManagedFolder::Newest ManagedFolder::newest(AnyStrategy& strategy,
                                                            std::uint64_t expected) {
  if (strategy.has_parameter_servers())
    throw ConfigurationError(
        "restore_or_initialize: with parameter servers, a restart goes on from their own backups: "
        "give ParameterServerOptions a backup_dir, and leave this call out");
  FileContents path, state;
  if (folder_) {
    try {
      folder_->begin();
      if (auto found = folder_->newest(expected, unreadable_)) {
        const auto text = std::as_bytes(std::span(found->path));
        path.bytes.assign(text.begin(), text.end());
        state.bytes = std::move(found->bytes);
      }
    } catch (const Error& error) {
      path = unreadable(error);
    }
  }
  const FileCall call{.name = "restore_or_initialize", .arguments = {}};
  const std::vector<std::byte> name = contents_from_chief(strategy, call, std::move(path));
  if (name.empty()) return {};
  return {.path = {reinterpret_cast<const char*>(name.data()), name.size()},
          .bytes = contents_from_chief(strategy, call, std::move(state))};
}

LOCKSTEP_INLINE void ManagedFolder::restored(std::int64_t updates) noexcept {
  if (folder_) folder_->restored(updates);
  unreadable_.clear();
}

LOCKSTEP_INLINE void ManagedFolder::finish() const {
  if (folder_) folder_->finish();
}

LOCKSTEP_INLINE std::vector<std::string> ManagedFolder::checkpoints() const {
  return folder_ ? folder_->checkpoints() : std::vector<std::string>{};
}

}}}  // namespace lockstep::detail
