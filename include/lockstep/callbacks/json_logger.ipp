#pragma once

#include <cstddef>
#include <span>

#include "lockstep/callbacks/json_logger.hpp"
#include "lockstep/core/json_text.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// `, "loss": 0.25, "accuracy": 0.5`
LOCKSTEP_INLINE std::string json_members(const Logs& logs) {
  std::string members;
  for (const auto& [name, value] : logs)
    members += ", " + json_text(name) + ": " + json_number(value);
  return members;
}

LOCKSTEP_INLINE std::string json_ms(std::chrono::steady_clock::time_point begin) {
  return json_number(
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
}

/// The learning rate as a member, unless it is among the figures.
LOCKSTEP_INLINE std::string json_learning_rate(const Training& training, const Logs& logs) {
  if (logs.contains("learning_rate")) return {};
  return ", \"learning_rate\": " + json_number(training.learning_rate());
}

LOCKSTEP_INLINE std::string json_rank_times(std::span<const RankTime> ranks) {
  std::string list;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    list += concat({rank > 0 ? ", " : "", "{\"rank\": ", rank,
                    ", \"compute_ms\": ", json_number(1000 * ranks[rank].compute),
                    ", \"collective_ms\": ", json_number(1000 * ranks[rank].collective), "}"});
  return list;
}

}  // namespace detail

LOCKSTEP_INLINE JSONLogger::JSONLogger(JSONLoggerOptions options)
    : file_("JSONLogger", std::move(options.filename), options.append),
      update_freq_(options.update_freq) {}

LOCKSTEP_INLINE void JSONLogger::on_train_begin(Training& training) {
  file_.open(training);
  is_in_fit_ = true;
  batches_ = 0;
  workers_ = training.num_workers();
}

LOCKSTEP_INLINE void JSONLogger::on_epoch_begin(Training&, int epoch) {
  if (file_.start()) file_.write(line("train_begin", concat({", \"workers\": ", workers_})));
  epoch_ = epoch;
  steps_ = 0;
  epoch_began_ = Clock::now();
}

LOCKSTEP_INLINE void JSONLogger::on_train_batch_begin(Training&, std::int64_t) {
  step_began_ = Clock::now();
}

LOCKSTEP_INLINE void JSONLogger::on_train_batch_end(Training& training, std::int64_t batch,
                                                    Logs& logs) {
  steps_ = batch + 1;  // those before a resume, too
  ++batches_;
  if (!file_.is_open() || !update_freq_.due(batches_)) return;
  file_.write(line(
      "step", concat({", \"epoch\": ", epoch_, ", \"step\": ", batch + 1, ", \"iteration\": ",
                      training.iterations(), ", \"ms\": ", detail::json_ms(step_began_),
                      detail::json_learning_rate(training, logs), detail::json_members(logs)})));
}

LOCKSTEP_INLINE void JSONLogger::on_epoch_end(Training& training, int epoch, Logs& logs) {
  if (!file_.is_open()) return;
  file_.write(
      line("epoch",
           concat({", \"epoch\": ", epoch, ", \"steps\": ", steps_, ", \"iteration\": ",
                   training.iterations(), ", \"ms\": ", detail::json_ms(epoch_began_),
                   detail::json_learning_rate(training, logs), detail::json_members(logs),
                   ", \"rank_times\": [", detail::json_rank_times(training.rank_times()), "]"})));
}

LOCKSTEP_INLINE void JSONLogger::on_test_end(Training& training, Logs& logs) {
  if (is_in_fit_) return;
  file_.append(training, line("evaluate", concat({", \"iteration\": ", training.iterations(),
                                                  detail::json_members(logs)})));
}

LOCKSTEP_INLINE void JSONLogger::on_train_end(Training&, Logs&) {
  file_.write(line("train_end", {}));
  file_.close();
  is_in_fit_ = false;
}

LOCKSTEP_INLINE void JSONLogger::on_train_abort(Training&) {
  is_in_fit_ = false;
  file_.write(line("train_abort", {}));
  file_.close();
}

LOCKSTEP_INLINE std::string JSONLogger::line(std::string_view event, const std::string& members) {
  const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
  return concat({"{\"event\": \"", event, "\", \"time\": ", detail::json_number(time.count()),
                 members, "}\n"});
}

LOCKSTEP_INLINE void JSONLogger::save(State& state) const {
  file_.save(state);
  state.put("batches", batches_);
}

LOCKSTEP_INLINE void JSONLogger::restore(const State& state) {
  file_.restore(state);
  if (state.contains("batches")) batches_ = state.get<std::int64_t>("batches");
}

}  // namespace lockstep::inline LOCKSTEP_ABI
