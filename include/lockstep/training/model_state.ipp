#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/checkpoint/byte_parts.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The line of the optimizer in a signature, "optimizer: SGD(learning_rate=0.1, momentum=0)", split
/// into its options.
class OptimizerLine {
 public:
  explicit OptimizerLine(std::string_view signature) {
    const std::size_t found = signature.find("\noptimizer: ");
    before_ = signature.substr(0, found);
    if (found == std::string_view::npos) return;
    const std::size_t end = std::min(signature.find('\n', found + 1), signature.size());
    after_ = signature.substr(end);
    std::string_view line = signature.substr(found, end - found);
    const std::size_t inside = std::min(line.find('('), line.size());
    head_ = line.substr(0, inside);
    line.remove_prefix(std::min(inside + 1, line.size()));
    if (!line.empty() && line.back() == ')') line.remove_suffix(1);
    // An option may have brackets, and commas in them.
    int depth = 0;
    for (std::size_t i = 0, begin = 0; i <= line.size(); ++i) {
      const char c = i < line.size() ? line[i] : ',';
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
      if (i < line.size() && (c != ',' || depth > 0)) continue;
      if (i > begin) options_.emplace_back(line.substr(begin, i - begin));
      begin = std::min(line.find_first_not_of(' ', i + 1), line.size());
    }
  }

  /// Empty where there is no such option.
  [[nodiscard]] std::string value(std::string_view name) const {
    for (const std::string& option : options_)
      if (name_of(option) == name) return option.substr(name.size() + 1);
    return {};
  }
  void mask(std::string_view name) {
    for (std::string& option : options_)
      if (name_of(option) == name) option = concat({name, "=..."});
  }
  /// Keeps only the options that cannot be changed in the middle of a training.
  void leave_fixed() {
    const auto has = [](std::string_view name, std::string_view text) {
      return name.find(text) != std::string_view::npos;
    };
    std::erase_if(options_, [&](const std::string& option) {
      const std::string_view name = name_of(option);
      return name == "momentum_form" || has(name, "clip") || has(name, "weight_decay") ||
             has(name, "learning_rate_factor");
    });
    for (std::string& option : options_) {
      const std::string name(name_of(option)), text = value(name);
      if (!text.empty() && text.find_first_not_of("0123456789.e+-") == std::string::npos &&
          name != "gradient_accumulation_steps")
        mask(name);
    }
  }

  [[nodiscard]] std::string line() const {
    std::string text(head_);
    for (const std::string& option : options_)
      text += concat({&option == options_.data() ? "(" : ", ", option});
    return options_.empty() ? text : text + ")";
  }
  [[nodiscard]] std::string signature() const { return concat({before_, line(), after_}); }

 private:
  static std::string_view name_of(std::string_view option) {
    return option.substr(0, option.find('='));
  }

  std::string_view before_, head_{}, after_{};
  std::vector<std::string> options_{};
};

LOCKSTEP_INLINE SignatureDifferences check_signature(std::string_view saved, std::string_view mine,
                                                     const RestoreRules& rules) {
  SignatureDifferences taken;
  OptimizerLine of_state(saved), of_program(mine);
  constexpr std::string_view rate = "learning_rate";
  taken.in_learning_rate = of_state.value(rate) != of_program.value(rate);
  for (OptimizerLine* const line : {&of_state, &of_program}) line->mask(rate);
  const std::string theirs = of_state.line(), ours = of_program.line();
  if (rules.allow_changes && theirs != ours) {
    taken.in_options =
        concat({"'", theirs.substr(1), "', this program has '", ours.substr(1), "'"});
    for (OptimizerLine* const line : {&of_state, &of_program}) line->leave_fixed();
  }
  const std::string all_of_state = of_state.signature(), all_of_program = of_program.signature();
  if (const auto lines = first_difference(all_of_state, all_of_program))
    throw ConfigurationError(concat({"restore: the saved state has '", lines->first,
                                     "', this program has '", lines->second, "': ", rules.remedy}));
  return taken;
}

LOCKSTEP_INLINE void save_arrays(std::vector<SavedArray>& saved, std::size_t first,
                                 const ArrayList& list, const std::string& suffix) {
  saved.resize(std::max(saved.size(), first + list.variables.size()));
  for (std::size_t i = 0; i < list.variables.size(); ++i) {
    const std::span<const std::size_t> shape = list.variables[i].shape();
    SavedArray& array = saved[first + i];
    array.name = list.names[i] + suffix;
    array.scalar = list.scalar;
    array.extents.assign(shape.begin(), shape.end());
    copy_bytes(list.bytes[i], array.bytes);
  }
}

/// The saved array of variable `i`, which has `bytes` bytes there.
LOCKSTEP_INLINE const SavedArray& saved_array(const std::vector<SavedArray>& saved,
                                              std::size_t first, const ArrayList& list,
                                              std::size_t i, std::size_t bytes) {
  const std::span<const std::size_t> shape = list.variables[i].shape();
  if (first + i >= saved.size())
    throw ConfigurationError(concat({"restore: the saved state has no array for ", list.names[i],
                                     " ", shape_text(shape), ": it belongs to another model"}));
  const SavedArray& array = saved[first + i];
  if (array.scalar != list.scalar ||
      !std::equal(array.extents.begin(), array.extents.end(), shape.begin(), shape.end()) ||
      array.bytes.size() != bytes)
    throw ConfigurationError(
        concat({"restore: expected ", list.names[i], " ", shape_text(shape), " of ", list.scalar,
                ", the saved state has '", array.name, "' ", shape_text(array.extents), " of ",
                array.scalar, ": it belongs to another model"}));
  return array;
}

LOCKSTEP_INLINE void load_arrays(const std::vector<SavedArray>& saved, std::size_t first,
                                 const ArrayList& list, bool check_only) {
  for (std::size_t i = 0; i < list.variables.size(); ++i) {
    const SavedArray& array = saved_array(saved, first, list, i, list.bytes[i].size());
    if (!check_only) std::copy(array.bytes.begin(), array.bytes.end(), list.bytes[i].begin());
  }
}

template <class T>
AllSlots<T>::AllSlots(const Trainer<T>& trainer) : trainer_(trainer) {
  trainer_.gather_slots();
}

template <class T>
AllSlots<T>::~AllSlots() {
  if (!trainer_.is_in_fit()) trainer_.release_slots();  // which does so itself
}

LOCKSTEP_INSTANCE(class AllSlots<LOCKSTEP_REAL>);

template <class T>
ArrayList trained_arrays(const Program<T>& program, const Arena<T>& arena) {
  return array_list<T>(program.layout().variables, program.names().variables, arena.slices());
}
template <class T>
ArrayList untrained_arrays(const Program<T>& program, const Arena<T>& state) {
  return array_list<T>(program.layout().state_variables, program.names().state_variables,
                       state.slices());
}

template <class T>
const Arena<T>& whole_slot(const Trainer<T>& model, std::size_t number) {
  const std::size_t shared = model.shared_slots();
  if (number >= shared) return model.variables().slots()[number - shared];
  if (!model.has_all_slots() || model.whole_slots().empty())
    throw Error(concat(
        {"the state of worker ", model.strategy().worker_index(),
         " has not all slots of the optimizer: with sharded_updates, the chief alone gets them, "
         "where a state is complete: in on_epoch_end, on_epoch_complete, on_preemption and "
         "on_train_end, and in on_train_batch_complete after verify_after_step in "
         "on_train_batch_begin"}));
  return model.whole_slots()[number];
}

template <class T>
void load_slot(Trainer<T>& model, const TrainingState& saved, std::size_t number, bool check_only) {
  const Program<T>& program = model.program();
  Variables<T>& variables = model.variables();
  const std::size_t first = number * program.layout().variables.size();
  const std::size_t shared = model.shared_slots();
  if (number >= shared)
    return load_arrays(saved.slots, first,
                       trained_arrays(program, variables.slots()[number - shared]), check_only);
  if (saved.has_slot_ranges) {
    const ArrayList list = trained_arrays(program, variables.parameters());
    const SlotRanges needed = slots_needed(model);
    for (std::size_t i = 0; i < needed.of.size(); ++i) {
      std::size_t bytes = 0;
      for (const ArraySlice& range : needed.of[i]) bytes += range.count * sizeof(T);
      (void)saved_array(saved.slots, first, list, i, bytes);
    }
    std::vector<std::size_t> done(needed.of.size());
    for (const SharePiece& piece : variables.shares().of(variables.worker()))
      variables.parameters().each_slice(
          piece.begin, piece.size,
          [&](std::size_t i, std::size_t, std::size_t count, std::size_t offset) {
            const auto to = std::as_writable_bytes(
                variables.slot_share(number).subspan(piece.place + offset, count));
            if (!check_only)
              std::copy_n(
                  saved.slots[first + i].bytes.begin() +
                      static_cast<std::ptrdiff_t>(std::exchange(done[i], done[i] + to.size())),
                  to.size(), to.begin());
          });
    return;
  }
  const Arena<T> whole(program.layout().variables);
  load_arrays(saved.slots, first, trained_arrays(program, whole), check_only);
  if (check_only) return;
  for (const SharePiece& piece : variables.shares().of(variables.worker()))
    std::ranges::copy(
        whole.values().subspan(piece.begin, piece.size),
        variables.slot_share(number).begin() + static_cast<std::ptrdiff_t>(piece.place));
}

/// In a fit, with the parameter servers.
template <class T>
bool is_elsewhere(const Trainer<T>& model) noexcept {
  return model.remote() != nullptr && model.remote()->are_in_fit() && !model.remote()->are_here();
}

template <class T>
bool has_whole_state(const Trainer<T>& model) {
  return !is_elsewhere(model) &&
         (model.shared_slots() == 0 || (model.has_all_slots() && !model.whole_slots().empty()));
}

template <class T>
void save_fields(const Trainer<T>& model, TrainingState& saved) {
  const Variables<T>& variables = model.variables();
  saved.signature = model.signature();
  saved.world_size = model.strategy().num_replicas_in_sync();
  saved.scalar = scalar_name<T>();
  saved.iterations = variables.iterations;
  saved.learning_rate = variables.learning_rate();
  saved.previous_learning_rate = variables.previous_learning_rate;
  saved.accumulated_steps = variables.accumulated_steps;
  saved.accumulated_rows = variables.accumulated_rows;
  if (variables.scales_loss()) {
    saved.loss_scale = variables.loss_scale.value;
    saved.finite_steps = variables.loss_scale.finite_steps;
  }
  saved.shows_averages = variables.shows_averages();
  saved.seed = variables.seed;
  saved.data_iteration = variables.next_pass;
}

template <class T>
TrainingState save_state(const Trainer<T>& model, TrainingState reused, bool before_step) {
  const Program<T>& program = model.program();
  const Variables<T>& variables = model.variables();
  AnyStrategy& strategy = model.strategy();
  if (is_elsewhere(model))
    throw Error(
        "save: within a fit with parameter servers, the optimizer's state is theirs: files are "
        "saved by callbacks such as ModelCheckpoint and BackupAndRestore, or after the fit");
  TrainingState saved;
  save_fields(model, saved);
  if (reused.signature == saved.signature) {  // then its arrays are as large as this model's
    saved.parameters = std::move(reused.parameters);
    saved.state = std::move(reused.state);
    saved.slots = std::move(reused.slots);
  }
  save_arrays(saved.parameters, 0, trained_arrays(program, variables.parameters()));
  const std::size_t count = program.layout().variables.size();
  for (std::size_t i = 0; i < model.slot_count(); ++i)
    save_arrays(saved.slots, i * count, trained_arrays(program, whole_slot(model, i)),
                concat({"/slot_", i}));
  const std::size_t in_slots = model.slot_count() * count;
  const bool is_in_window = variables.accumulated_steps > 0;
  if (is_in_window)
    save_arrays(saved.slots, in_slots, trained_arrays(program, variables.accumulated()),
                "/accumulated");
  saved.slots.resize(in_slots + (is_in_window ? count : 0));
  model.rank_state().save(saved.slots, static_cast<std::size_t>(strategy.num_replicas_in_sync()));
  const Workspace<T>& first = model.workspace(0);
  save_arrays(saved.state, 0,
              untrained_arrays(program, before_step ? first.state_before_step() : first.state()));
  return saved;
}

/// Puts slices into one of the lists of a share.
class SliceWriter {
 public:
  SliceWriter(StateShare& share, std::vector<SavedArray>& list, const char* scalar,
              std::size_t element)
      : share_(share), list_(list), scalar_(scalar), element_(element) {}
  SliceWriter(const SliceWriter&) = delete;
  SliceWriter& operator=(const SliceWriter&) = delete;
  ~SliceWriter() { list_.resize(used_); }

  /// Large ones become several, as the reader needs memory for one of them.
  void add(ArraySlice slice, const std::string& name, std::span<const std::byte> bytes) {
    constexpr std::uint64_t most = std::uint64_t{1} << 22;
    for (std::uint64_t done = 0; done < slice.count; done += most) {
      const std::uint64_t count = std::min(most, slice.count - done);
      if (used_ == list_.size()) list_.emplace_back();
      SavedArray& array = list_[used_++];
      array.name = name;
      array.scalar = scalar_;
      array.extents.assign(1, count);
      copy_bytes(bytes.subspan(done * element_, count * element_), array.bytes);
      share_.slices.push_back({slice.array, slice.begin + done, count});
    }
  }

 private:
  StateShare& share_;
  std::vector<SavedArray>& list_;
  const char* scalar_;
  std::size_t element_;
  std::size_t used_ = 0;
};

/// A list of arrays without elements.
inline void add_shapes(std::vector<SavedArray>& shapes, const ArrayList& list,
                       const std::string& suffix = {}) {
  for (std::size_t i = 0; i < list.variables.size(); ++i) {
    const auto shape = list.variables[i].shape();
    shapes.push_back({.name = list.names[i] + suffix,
                      .scalar = list.scalar,
                      .extents = {shape.begin(), shape.end()}});
  }
}

template <class T>
StateShare share_of_state(const Trainer<T>& model, StateShare reused, bool before_step) {
  const Program<T>& program = model.program();
  const Variables<T>& variables = model.variables();
  AnyStrategy& strategy = model.strategy();
  const bool is_chief = strategy.is_chief();
  const auto worker = static_cast<std::size_t>(strategy.worker_index());
  const auto workers = static_cast<std::size_t>(strategy.num_workers());
  const char* const scalar = scalar_name<T>();
  StateShare share;
  if (is_chief) save_fields(model, share.state);
  share.state.parameters = std::move(reused.state.parameters);
  share.state.slots = std::move(reused.state.slots);
  std::uint64_t array = 0;  // the first one of those that are added
  // An arena that all workers have: each writes a part, or the chief, where theirs differ, its own.
  const auto add_part = [&](SliceWriter& writer, const Arena<T>& arena,
                            std::vector<SavedArray>& shapes, const std::string& suffix,
                            bool is_equal = true) {
    const std::size_t first = shapes.size();
    add_shapes(shapes, trained_arrays(program, arena), suffix);
    if (is_equal || is_chief) {
      const auto [begin, size] = is_equal ? arena.part(worker, workers) : arena.part(0, 1);
      arena.each_slice(begin, size, [&](std::size_t i, std::size_t at, std::size_t count, auto) {
        writer.add({array + i, at, count}, shapes[first + i].name,
                   std::as_bytes(arena.slices()[i].subspan(at, count)));
      });
    }
    array += shapes.size() - first;
  };
  {
    SliceWriter writer(share, share.state.parameters, scalar, sizeof(T));
    add_part(writer, variables.parameters(), share.parameters, {});
  }
  const Workspace<T>& first = model.workspace(0);
  const ArrayList untrained =
      untrained_arrays(program, before_step ? first.state_before_step() : first.state());
  add_shapes(share.untrained, untrained);
  if (is_chief) {
    SliceWriter writer(share, share.state.state, scalar, sizeof(T));
    for (std::size_t i = 0; i < untrained.bytes.size(); ++i)
      writer.add({array + i, 0, untrained.bytes[i].size() / sizeof(T)}, untrained.names[i],
                 untrained.bytes[i]);
  }
  array += share.untrained.size();

  SliceWriter writer(share, share.state.slots, scalar, sizeof(T));
  const std::size_t shared = model.shared_slots();
  for (std::size_t number = 0; number < model.slot_count(); ++number) {
    const std::string suffix = concat({"/slot_", number});
    if (number >= shared) {
      add_part(writer, variables.slots()[number - shared], share.slots, suffix,
               number - shared >= variables.own_slots());
      continue;
    }
    const Arena<T>& layout = variables.parameters();
    const std::size_t begin = share.slots.size();
    add_shapes(share.slots, trained_arrays(program, layout), suffix);
    const std::span<const std::byte> mine = std::as_bytes(variables.slot_share(number));
    for (const SharePiece& piece : variables.shares().of(variables.worker()))
      layout.each_slice(piece.begin, piece.size,
                        [&](std::size_t i, std::size_t at, std::size_t count, std::size_t offset) {
                          writer.add(
                              {array + i, at, count}, share.slots[begin + i].name,
                              mine.subspan((piece.place + offset) * sizeof(T), count * sizeof(T)));
                        });
    array += share.slots.size() - begin;
  }
  if (variables.accumulated_steps > 0)
    add_part(writer, variables.accumulated(), share.slots, "/accumulated");
  std::vector<SavedArray> of_ranks;  // gathered on the chief
  model.rank_state().save(of_ranks, static_cast<std::size_t>(strategy.num_replicas_in_sync()));
  for (SavedArray& own : of_ranks) {
    const std::vector<std::byte> bytes = std::exchange(own.bytes, {});
    writer.add({array++, 0, bytes.size() / sizeof(T)}, own.name, bytes);
    share.slots.push_back(std::move(own));
  }
  return share;
}

template <class T>
SlotRanges slots_needed(const Trainer<T>& model) {
  const Variables<T>& variables = model.variables();
  const std::size_t count = model.program().layout().variables.size();
  SlotRanges needed{.arrays = model.shared_slots() * count, .bytes = model.state_bytes()};
  if (needed.arrays == 0) return needed;
  needed.of.resize(count);
  for (const SharePiece& piece : variables.shares().of(variables.worker()))
    variables.parameters().each_slice(piece.begin, piece.size,
                                      [&](std::size_t i, std::size_t at, std::size_t size, auto) {
                                        needed.of[i].push_back({i, at, size});
                                      });
  return needed;
}

template <class T>
std::uint64_t state_bytes(const Trainer<T>& model) {
  return model.state_bytes();
}

template <class T>
void restore_state(Trainer<T>& model, const TrainingState& saved, const RestoreRules& rules) {
  const Program<T>& program = model.program();
  Variables<T>& variables = model.variables();
  const SignatureDifferences differences =
      check_signature(saved.signature, model.signature(), rules);
  if (saved.scalar != scalar_name<T>())
    throw ConfigurationError(concat(
        {"restore: the saved state is of ", saved.scalar, ", this model of ", scalar_name<T>()}));
  const std::size_t count = program.layout().variables.size();
  const bool is_in_window =
      saved.accumulated_steps > 0 && !variables.accumulated().values().empty();
  const std::size_t behind = (model.slot_count() + (is_in_window ? 1 : 0)) * count;
  if (saved.parameters.size() != count || !model.rank_state().fits(saved, behind))
    throw ConfigurationError(
        concat({"restore: the saved state has ", saved.parameters.size(), " parameter arrays and ",
                saved.slots.size(), " optimizer arrays, this model has ", count, " and ",
                model.slot_count() * count, ": it belongs to another program"}));
  for (const bool check_only : {true, false}) {
    for (std::size_t i = 0; i < model.replicas(); ++i)
      load_arrays(saved.state, 0, untrained_arrays(program, model.workspace(i).state()),
                  check_only);
    load_arrays(saved.parameters, 0, trained_arrays(program, variables.parameters()), check_only);
    for (std::size_t i = 0; i < model.slot_count(); ++i) load_slot(model, saved, i, check_only);
    if (is_in_window)
      load_arrays(saved.slots, model.slot_count() * count,
                  trained_arrays(program, variables.accumulated()), check_only);
    model.rank_state().load(saved, behind, model.place(), model.workspace(0).residuals(),
                            check_only);
  }
  variables.iterations = saved.iterations;
  ++variables.revision;
  variables.set_learning_rate(saved.learning_rate);
  variables.previous_learning_rate = saved.previous_learning_rate;
  if (!is_in_window) std::ranges::fill(variables.accumulated().values(), T(0));
  variables.accumulated_steps = saved.accumulated_steps;
  variables.accumulated_rows = saved.accumulated_rows;
  variables.loss_scale = saved.loss_scale > 0 && variables.scales_loss()
                             ? LossScale{saved.loss_scale, saved.finite_steps}
                             : variables.initial_loss_scale();
  variables.set_shows_averages(saved.shows_averages);
  variables.seed = saved.seed;
  variables.next_pass = saved.data_iteration + (saved.data_position > 0 ? 1 : 0);  // a new one
  if (!model.strategy().is_chief()) return;
  if (!differences.in_options.empty())
    log_line(concat({"restore: goes on with other options than the saved state: it has ",
                     differences.in_options}));
  if (differences.in_learning_rate)
    log_line(
        variables.has_schedule()
            ? concat(
                  {"restore: goes on with the schedule of this program, now at the learning rate ",
                   variables.learning_rate(), "; the saved state has ", saved.learning_rate})
            : concat({"restore: goes on with the learning rate ", saved.learning_rate,
                      " of the saved state; this program has ", program.initial_learning_rate()}));
}

LOCKSTEP_INSTANCE(void save_fields(const Trainer<LOCKSTEP_REAL>&, TrainingState&));
LOCKSTEP_INSTANCE(TrainingState save_state(const Trainer<LOCKSTEP_REAL>&, TrainingState, bool));
LOCKSTEP_INSTANCE(StateShare share_of_state(const Trainer<LOCKSTEP_REAL>&, StateShare, bool));
LOCKSTEP_INSTANCE(SlotRanges slots_needed(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(bool has_whole_state(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(std::uint64_t state_bytes(const Trainer<LOCKSTEP_REAL>&));
LOCKSTEP_INSTANCE(void restore_state(Trainer<LOCKSTEP_REAL>&, const TrainingState&,
                                     const RestoreRules&));
}}}  // namespace lockstep::detail
