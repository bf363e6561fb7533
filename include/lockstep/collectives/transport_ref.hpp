// Any Transport behind one type, for algorithms that are compiled once.
#pragma once

#include <type_traits>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Refers to a Transport for the time of an operation: two calls through a pointer for each of
/// them.
class TransportRef {
 public:
  template <class T>
    requires(!std::is_same_v<T, TransportRef> && Transport<T>)
  TransportRef(T& transport)  // NOLINT(google-explicit-constructor)
      : transport_(&transport),
        rank_(transport.rank()),
        size_(transport.size()),
        begin_([]([[maybe_unused]] void* self, [[maybe_unused]] Operation operation) {
          if constexpr (requires(T& t) { t.begin(operation); })
            static_cast<T*>(self)->begin(operation);
        }),
        transfer_([](void* self, int to, int from, Flow& flow) {
          static_cast<T*>(self)->transfer(to, from, flow);
        }) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  void begin(Operation operation) const { begin_(transport_, operation); }
  void transfer(int to, int from, Flow& flow) const { transfer_(transport_, to, from, flow); }

 private:
  void* transport_;
  int rank_;
  int size_;
  void (*begin_)(void*, Operation);
  void (*transfer_)(void*, int, int, Flow&);
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
