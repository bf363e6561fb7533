#pragma once

#include "lockstep/training/all_slots.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
AllSlots<T>::AllSlots(const Trainer<T>& trainer) : trainer_(trainer) {
  trainer_.gather_slots();
}

template <class T>
AllSlots<T>::~AllSlots() {
  if (!trainer_.is_in_fit()) trainer_.release_slots();  // which does so itself
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

namespace lockstep::inline LOCKSTEP_ABI::detail {
LOCKSTEP_INSTANCE(class AllSlots<LOCKSTEP_REAL>);
}  // namespace lockstep::inline LOCKSTEP_ABI::detail
