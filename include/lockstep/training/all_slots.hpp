// AllSlots: a scope in which the chief has the optimizer's slots of all workers.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// While it lives, the chief has all slots. Made by all workers, in the same place of their calls.
template <class T>
class AllSlots {
 public:
  explicit AllSlots(const Trainer<T>& trainer);
  AllSlots(const AllSlots&) = delete;
  AllSlots& operator=(const AllSlots&) = delete;
  ~AllSlots();

 private:
  const Trainer<T>& trainer_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/all_slots.ipp"
#endif
