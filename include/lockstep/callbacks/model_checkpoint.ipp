#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/model_checkpoint.hpp"
#include "lockstep/checkpoint/checkpoint_folder.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/file_writer.hpp"
#include "lockstep/checkpoint/sharded_state.hpp"
#include "lockstep/checkpoint/snapshot.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// How many digits a text begins with.
LOCKSTEP_INLINE std::size_t leading_digits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

/// The number that a text begins with; of three digits at most.
LOCKSTEP_INLINE int leading_number(std::string_view text) {
  int number = 0;
  for (const char digit : text.substr(0, leading_digits(text)))
    number = 10 * number + (digit - '0');
  return number;
}

/// Fills a number up to the width that `flags` ("8", "08.3") begin with: with blanks, or zeros
/// behind the sign, as printf does.
LOCKSTEP_INLINE std::string fill_number(std::string number, std::string_view flags) {
  const auto width = static_cast<std::size_t>(leading_number(flags));
  if (number.size() >= width) return number;
  const bool has_zeros = flags.starts_with('0') && number.find_first_of("in") == std::string::npos;
  const std::size_t at = has_zeros && number.starts_with('-') ? 1 : 0;
  return number.insert(at, width - number.size(), has_zeros ? '0' : ' ');
}

/// A number in one of printf's forms; `flags` come from a template that was checked.
LOCKSTEP_INLINE std::string form_number(double number, std::string_view flags, char conversion) {
  const NumberForm form = conversion == 'e'   ? NumberForm::scientific
                          : conversion == 'f' ? NumberForm::fixed
                                              : NumberForm::general;
  const std::size_t point = flags.find('.');
  const int digits = point == std::string_view::npos ? 6 : leading_number(flags.substr(point + 1));
  return fill_number(number_text(number, form, digits), flags);
}

}  // namespace detail

LOCKSTEP_INLINE FilepathTemplate::FilepathTemplate(std::string_view text)
    : text_(text), pieces_(1) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigurationError(concat({"filepath '", text_, "': ", why,
                                     "; expected for example 'run/{epoch:02d}-{val_loss:.2f}'"}));
  };
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if ((c == '{' || c == '}') && text.starts_with(c)) {
      pieces_.back().text += c;
      text.remove_prefix(1);
    } else if (c == '}') {
      refuse("a '}' without a '{'");
    } else if (c == '{') {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) refuse("a '{' without a '}'");
      const std::string_view field = text.substr(0, end), name = field.substr(0, field.find(':'));
      std::string_view form = field.substr(std::min(name.size() + 1, field.size()));
      text.remove_prefix(end + 1);
      const std::size_t width = detail::leading_digits(form);
      const std::size_t precision = form.substr(width).starts_with('.')
                                        ? 1 + detail::leading_digits(form.substr(width + 1))
                                        : 0;
      pieces_.back().field = name;
      pieces_.back().flags = form.substr(0, width + precision);
      form.remove_prefix(width + precision);
      if (!form.empty()) pieces_.back().conversion = form.front();
      constexpr std::string_view conversions = "defg";
      if (name.empty() || form.size() > 1 || width > 3 || precision == 1 || precision > 3 ||
          (!form.empty() && conversions.find(form.front()) == std::string_view::npos) ||
          (form.empty() && width + precision > 0))
        refuse(concat({"cannot understand '{", field, "}'"}));
      pieces_.emplace_back();
    } else {
      pieces_.back().text += c;
    }
  }
}

LOCKSTEP_INLINE std::string FilepathTemplate::format(std::int64_t epoch,
                                                     std::optional<std::int64_t> batch,
                                                     const Logs& logs) const {
  std::string path;
  for (const Piece& piece : pieces_) {
    path += piece.text;
    if (piece.field.empty()) continue;
    const auto refuse = [&](std::string_view why) {
      throw ConfigurationError(concat({"filepath '", text_, "': '", piece.field, "' ", why}));
    };
    std::optional<std::int64_t> whole;
    if (piece.field == "epoch") whole = epoch + 1;
    if (piece.field == "batch" && batch) whole = *batch + 1;
    if (whole && (piece.conversion == 0 || piece.conversion == 'd')) {
      if (piece.flags.find('.') != std::string::npos)
        refuse("is a whole number and has no precision");
      path += detail::fill_number(concat({*whole}), piece.flags);
      continue;
    }
    if (!whole && !logs.contains(piece.field)) {
      std::string available = batch ? "epoch, batch" : "epoch";
      for (const auto& [name, value] : logs) available += ", " + name;
      refuse("is not there; available: " + available);
    }
    const double value = whole ? static_cast<double>(*whole) : logs.at(piece.field);
    if (piece.conversion == 'd') refuse("is no whole number: use e, f or g in place of d");
    path += piece.conversion == 0 ? concat({value})
                                  : detail::form_number(value, piece.flags, piece.conversion);
  }
  return path;
}

LOCKSTEP_INLINE ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options)
    : options_(std::move(options)),
      filepath_(options_.filepath),
      greater_is_better_(
          options_.save_best_only &&
          detail::greater_is_better("ModelCheckpoint", options_.monitor, options_.mode)) {
  if (options_.filepath.empty())
    throw ConfigurationError("ModelCheckpoint: filepath is empty: name a file");
  if (options_.sharded && options_.save_weights_only)
    throw ConfigurationError(
        "ModelCheckpoint: .sharded is for the whole training state, and .save_weights_only writes "
        "one file for other programs: leave one of the two out");
  if (options_.save_weights_only)
    check_weights_path("ModelCheckpoint", options_.filepath);
  else
    refuse_weights_format("ModelCheckpoint", options_.filepath);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  best_ = options_.initial_value_threshold.value_or(greater_is_better_ ? -infinity : infinity);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_begin(Training& training) {
  if (options_.sharded) detail::check_has_shares("ModelCheckpoint", training.has_shares());
  if (const auto folder = marked_folder(training)) mark_training_begun(*folder);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_end(Training& training, Logs&) {
  if (const auto folder = marked_folder(training)) mark_training_ended(*folder);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_epoch_end(Training& training, int, Logs& logs) {
  if (options_.save_freq.at_epoch()) decide(training, std::nullopt, logs);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_epoch_complete(Training& training, int) {
  write(training);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_begin(Training& training, std::int64_t) {
  if (!options_.save_freq.at_epoch() && options_.save_freq.at_step(batches_ + 1))
    training.verify_after_step();
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_end(Training& training, std::int64_t batch,
                                                         Logs& logs) {
  if (options_.save_freq.at_epoch() || !options_.save_freq.at_step(++batches_)) return;
  batches_ = 0;
  decide(training, batch, logs);
}

LOCKSTEP_INLINE void ModelCheckpoint::on_train_batch_complete(Training& training, std::int64_t) {
  write(training);
}

LOCKSTEP_INLINE void ModelCheckpoint::save(State& state) const {
  if (options_.save_best_only) state.put("best", best_);
  if (!options_.save_freq.at_epoch()) state.put("batches_since_save", batches_);
}

LOCKSTEP_INLINE void ModelCheckpoint::restore(const State& state) {
  if (state.contains("best")) best_ = state.get<double>("best");
  if (state.contains("batches_since_save"))
    batches_ = state.get<std::int64_t>("batches_since_save");
}

/// All workers decide alike: they see the same logs.
LOCKSTEP_INLINE void ModelCheckpoint::decide(const Training& training,
                                             std::optional<std::int64_t> batch, const Logs& logs) {
  const auto say = [&](std::string_view what) {
    if (options_.verbose > 0 && training.is_chief())
      log_line(concat({"Epoch ", epoch_ + 1, ": ", what}));
  };
  std::string path = filepath_.format(epoch_, batch, logs);
  if (!options_.save_best_only) {
    say(concat({"saving model to ", path}));
  } else {
    const double* const value = logs.find(options_.monitor);
    if (value == nullptr) {
      if (detail::is_of_other_epochs(options_.monitor, training, logs)) return;
      if (std::exchange(has_warned_, true) || !training.is_chief()) return;
      return log_warning(concat({"ModelCheckpoint: nothing is saved: monitor: the logs have no '",
                                 options_.monitor, "'; available: ", detail::names_of(logs)}));
    }
    if (!(greater_is_better_ ? *value > best_ : *value < best_))
      return say(concat({options_.monitor, " did not improve from ", best_}));
    say(concat(
        {options_.monitor, " improved from ", best_, " to ", *value, ", saving model to ", path}));
    best_ = *value;
  }
  due_ = std::move(path);
}

/// Where to say whether training has ended.
LOCKSTEP_INLINE std::optional<std::string> ModelCheckpoint::marked_folder(
    const Training& training) const {
  const std::string folder = detail::folder_of(options_.filepath).string();
  if (!training.is_chief() || options_.save_weights_only || folder.find('{') != std::string::npos)
    return std::nullopt;
  return folder;
}

LOCKSTEP_INLINE void ModelCheckpoint::write(Training& training) {
  if (!due_) return;
  if (!training.is_verified()) return training.verify_after_step();
  const std::string path = *std::exchange(due_, std::nullopt);
  if (options_.sharded)
    return detail::save_shares(path, training.worker_index(), training.share(),
                               [&](const std::string& mine) { return training.exchange(mine); });
  if (!training.is_chief()) return;
  TrainingState state = training.state();
  if (options_.save_weights_only) {
    const bool is_keras = is_keras_file(path);
    const KerasOptimizer optimizer = is_keras ? training.keras_optimizer(state) : KerasOptimizer{};
    std::move(state.state.begin(), state.state.end(), std::back_inserter(state.parameters));
    save_weights_file(path, std::move(state.parameters),
                      is_keras ? training.keras_layout() : KerasLayout{}, optimizer);
  } else {
    save_snapshot(path, state);
  }
  remove_stale_temporaries(path);
}

}}  // namespace lockstep
