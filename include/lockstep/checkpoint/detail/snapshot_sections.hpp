// The named sections of a checkpoint's manifest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Calls f(name, field) for each field of the section "model".
template <class Saved, class F>
void each_model_field(Saved& saved, F f) {
  f("scalar", saved.scalar);
  f("signature", saved.signature);
  f("iterations", saved.iterations);
  f("learning_rate", saved.learning_rate);
  f("seed", saved.seed);
  f("world_size", saved.world_size);
}

/// Fields of the section "model" that files lack where they are zeros, as all files of earlier
/// versions.
template <class Saved, class F>
void each_later_model_field(Saved& saved, F f) {
  f("previous_learning_rate", saved.previous_learning_rate);
  f("accumulated_steps", saved.accumulated_steps);
  f("accumulated_rows", saved.accumulated_rows);
  f("shows_averages", saved.shows_averages);
}

/// The same for the section "fit".
template <class Saved, class F>
void each_fit_field(Saved& saved, F f) {
  f("epoch", saved.epoch);
  f("step", saved.step);
  f("data_iteration", saved.data_iteration);
  f("data_position", saved.data_position);
  f("global_batch", saved.global_batch);
  f("running", saved.running);
  f("is_epoch_open", saved.is_epoch_open);
}

/// Fields of the section "fit" that files lack where they are zeros.
template <class Saved, class F>
void each_later_fit_field(Saved& saved, F f) {
  f("samples", saved.samples);
  f("samples_checksum", saved.samples_checksum);
  f("epoch_steps", saved.epoch_steps);
}

/// The lists of arrays, in the order of the file.
template <class Saved>
auto array_lists(Saved& saved) {
  return std::array{&saved.parameters, &saved.state, &saved.slots};
}

/// Throws DataError naming the section unless the record has such an entry.
template <class T>
void take_entry(const State& record, std::string_view section, std::string_view name, T& field) {
  try {
    field = record.get<T>(name);
  } catch (const Error& error) {
    throw DataError(concat({"checkpoint: section '", section, "': ", error.what()}));
  }
}

template <class Writer>
void write_sections(Writer& writer, const TrainingState& saved) {
  State model, fit;
  each_model_field(saved,
                   [&](std::string_view name, const auto& field) { model.put(name, field); });
  const auto put_later = [](State& section) {
    return [&](std::string_view name, const auto& field) {
      if (field != std::remove_cvref_t<decltype(field)>{}) section.put(name, field);
    };
  };
  each_later_model_field(saved, put_later(model));
  each_fit_field(saved, [&](std::string_view name, const auto& field) { fit.put(name, field); });
  each_later_fit_field(saved, put_later(fit));
  const auto write = [&](const char* name, const std::vector<State>& records) {
    writer(std::string(name));
    writer(records);
  };
  writer(std::uint64_t{4});
  write("model", {model});
  write("fit", {fit});
  write("callbacks", saved.callbacks);
  write("objects", saved.objects);
}

/// Throws DataError when a section or an entry is missing.
template <class Reader>
void read_sections(Reader& reader, TrainingState& saved) {
  std::vector<State> model, fit;
  for (std::size_t sections = reader.size(1); sections > 0; --sections) {
    std::string name;
    std::vector<State> records;
    reader(name);
    reader(records);
    if (name == "model")
      model = std::move(records);
    else if (name == "fit")
      fit = std::move(records);
    else if (name == "callbacks")
      saved.callbacks = std::move(records);
    else if (name == "objects")
      saved.objects = std::move(records);
  }
  if (model.size() != 1 || fit.size() != 1)
    throw DataError(concat(
        {"checkpoint: damaged: expected one record in each of the sections 'model' and 'fit', got ",
         model.size(), " and ", fit.size()}));
  each_model_field(saved, [&](std::string_view name, auto& field) {
    take_entry(model[0], "model", name, field);
  });
  each_later_model_field(saved, [&](std::string_view name, auto& field) {
    if (model[0].contains(name)) take_entry(model[0], "model", name, field);
  });
  each_fit_field(
      saved, [&](std::string_view name, auto& field) { take_entry(fit[0], "fit", name, field); });
  each_later_fit_field(saved, [&](std::string_view name, auto& field) {
    if (fit[0].contains(name)) take_entry(fit[0], "fit", name, field);
  });
}

/// Formats 1 and 2 have fixed fields and a single list of records: those of the callbacks, followed
/// by one of fit's own, or else those of a Checkpoint's objects. (Without fit's record, which very
/// old files lack, nothing says which; then both have them.)
template <class Reader>
void read_old_fields(Reader& reader, TrainingState& saved) {
  reader(saved.scalar);
  reader(saved.signature);
  reader(saved.iterations);
  reader(saved.learning_rate);
  reader(saved.seed);
  reader(saved.epoch);
  reader(saved.step);
  reader(saved.data_iteration);
  reader(saved.data_position);
  reader(saved.world_size);
  reader(saved.running);
  reader(saved.callbacks);
  constexpr std::string_view batch = "fit/global_batch";
  if (saved.callbacks.empty() || !saved.callbacks.back().contains(batch)) {
    saved.objects = saved.callbacks;
    return;
  }
  take_entry(saved.callbacks.back(), "callbacks", batch, saved.global_batch);
  saved.is_epoch_open = saved.callbacks.back().contains("fit/epoch_is_open");
  saved.callbacks.pop_back();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
