// A pointer that owns an object behind an interface, and copies it.
#pragma once

#include <utility>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Owns what is behind an Interface with a virtual destructor, or nothing. A copy has a copy of the
/// object: `Interface* clone() const` makes one with new. (Quicker to compile than
/// std::unique_ptr, which every program would instantiate.)
template <class Interface>
class ClonePtr {
 public:
  ClonePtr() noexcept = default;
  /// Takes over what new has made.
  explicit ClonePtr(Interface* made) noexcept : held_(made) {}
  ClonePtr(const ClonePtr& other)
      : held_(other.held_ != nullptr ? other.held_->clone() : nullptr) {}
  ClonePtr(ClonePtr&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  ClonePtr& operator=(ClonePtr other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~ClonePtr() { delete held_; }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  Interface* operator->() const noexcept { return held_; }

 private:
  Interface* held_ = nullptr;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
