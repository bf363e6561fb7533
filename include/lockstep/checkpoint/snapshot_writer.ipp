#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/checkpoint/snapshot_writer.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE BackgroundTask::~BackgroundTask() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

LOCKSTEP_INLINE bool BackgroundTask::is_running() const {
  return result_.valid() && result_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

LOCKSTEP_INLINE void BackgroundTask::start(std::function<void()> task) {
  finish();
  try {
    result_ = std::async(std::launch::async, std::move(task));
  } catch (const std::system_error& error) {
    throw_no_thread("saving beside training", error);
  }
}

LOCKSTEP_INLINE void BackgroundTask::finish() {
  if (result_.valid()) result_.get();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
