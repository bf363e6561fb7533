// FunctionRef: a function that is called while its owner waits.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

template <class Signature>
class FunctionRef;

/// Refers to anything that can be called with these arguments, as an argument of a function that is
/// no template. Does not own it: it is valid as long as what it was made of. (What C++26 has as
/// std::function_ref.)
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& f) noexcept  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Arguments... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Arguments>(arguments)...);
        }) {}

  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace lockstep::inline LOCKSTEP_ABI
