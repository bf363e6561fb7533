#pragma once

#include <algorithm>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The entry of a state that names its callback; a name that no callback would use.
inline constexpr std::string_view callback_entry = "__callback__";

LOCKSTEP_INLINE std::string callback_name(std::string_view type, std::string_view key) {
  return key.empty() ? std::string(type) : concat({type, "(", key, ")"});
}

LOCKSTEP_INLINE void CallbackStates::add(std::string_view type, std::string_view key, State state) {
  if (state.empty()) return;
  state.put(callback_entry, callback_name(type, key));
  states_.push_back(std::move(state));
}

LOCKSTEP_INLINE SavedCallbacks::SavedCallbacks(const std::vector<State>& states)
    : states_(states), taken_(states.size(), false) {}

LOCKSTEP_INLINE const State* SavedCallbacks::find(std::string_view type, std::string_view key,
                                                  const State& own) {
  const std::string name = callback_name(type, key);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (taken_[i] || states_[i].get<std::string>(callback_entry) != name) continue;
    taken_[i] = true;
    return &states_[i];
  }
  if (!own.empty()) afresh_ += (afresh_.empty() ? "" : ", ") + name;
  return nullptr;
}

LOCKSTEP_INLINE std::string SavedCallbacks::differences() const {
  std::string dropped;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!taken_[i])
      dropped += (dropped.empty() ? "" : ", ") + states_[i].get<std::string>(callback_entry);
  std::string text;
  if (!dropped.empty())
    text = concat({"what the saved training has of ", dropped,
                   " is dropped: no callback of this program has that type and that key"});
  if (!afresh_.empty())
    text += concat({text.empty() ? "" : "; ", "the saved training has nothing of ", afresh_,
                    ", which begins afresh"});
  return text;
}

}}}  // namespace lockstep::detail
