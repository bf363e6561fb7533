// FunctionRef: a function that is called while its owner waits.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

template <class Signature>
class FunctionRef;

/// Refers to any object that can be called with these arguments, as an argument of a function that
/// is no template. Does not own it: it is valid as long as what it was made of. (What C++26 has as
/// std::function_ref, but that a function is given as a lambda.)
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<F>> &&
             std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(
      F&& f) noexcept  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Arguments... arguments) -> R {
          auto& callee = *static_cast<std::remove_reference_t<F>*>(object);
          if constexpr (std::is_void_v<R>)
            (void)callee(std::forward<Arguments>(arguments)...);
          else
            return callee(std::forward<Arguments>(arguments)...);
        }) {}

  R operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  R (*call_)(void*, Arguments...);
};

}}  // namespace lockstep
