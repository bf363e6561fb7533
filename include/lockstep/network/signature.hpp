// signature: a number of a model, which changes with it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/network/layer_chain.hpp"

// A layer is hashed as its name and its template arguments: types (layers, activations, merges) as
// layers are, numbers by value, options field by field. So the number depends neither on the
// compiler nor on how it spells a type. To that come the names and shapes of all variables.

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// FNV-1a of 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/.
class Fingerprint {
 public:
  constexpr void add(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(word >> (8 * i)));
  }
  constexpr void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Converts to any field of an aggregate. (It is none itself: see InitializerOption.)
class AnyField {
 public:
  AnyField() = delete;
  template <class T>
  constexpr operator T() const;
};
template <class V, class... Fields>
consteval std::size_t field_count() {
  if constexpr (requires(const AnyField& next, const Fields&... fields) { V{fields..., next}; })
    return field_count<V, Fields..., AnyField>();
  else
    return sizeof...(Fields);
}

#define LOCKSTEP_FIELDS(count, ...) \
  if constexpr (n == count) {       \
    const auto& [__VA_ARGS__] = v;  \
    f(__VA_ARGS__);                 \
  }
/// Calls f with all fields of an aggregate.
template <class V, class F>
constexpr void with_fields(const V& v, F f) {
  constexpr std::size_t n = field_count<V>();
  static_assert(n <= 16,
                "lockstep: signature reads options of at most 16 fields; give the layer a member "
                "`static constexpr std::uint64_t signature`");
  LOCKSTEP_FIELDS(1, a)
  LOCKSTEP_FIELDS(2, a, b)
  LOCKSTEP_FIELDS(3, a, b, c)
  LOCKSTEP_FIELDS(4, a, b, c, d)
  LOCKSTEP_FIELDS(5, a, b, c, d, e)
  LOCKSTEP_FIELDS(6, a, b, c, d, e, g)
  LOCKSTEP_FIELDS(7, a, b, c, d, e, g, h)
  LOCKSTEP_FIELDS(8, a, b, c, d, e, g, h, i)
  LOCKSTEP_FIELDS(9, a, b, c, d, e, g, h, i, j)
  LOCKSTEP_FIELDS(10, a, b, c, d, e, g, h, i, j, k)
  LOCKSTEP_FIELDS(11, a, b, c, d, e, g, h, i, j, k, l)
  LOCKSTEP_FIELDS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  LOCKSTEP_FIELDS(13, a, b, c, d, e, g, h, i, j, k, l, m, o)
  LOCKSTEP_FIELDS(14, a, b, c, d, e, g, h, i, j, k, l, m, o, p)
  LOCKSTEP_FIELDS(15, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q)
  LOCKSTEP_FIELDS(16, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r)
}
#undef LOCKSTEP_FIELDS

template <class V>
constexpr void add_values(Fingerprint& to, const V& value);
template <class... V>
constexpr void add_all(Fingerprint& to, const V&... values) {
  (add_values(to, values), ...);
}

constexpr void add_initializer(Fingerprint& to, const Initializer& initializer) {
  to.add(initializer.name());
  add_all(to, initializer.numbers().first, initializer.numbers().second);
}

/// (Of the classes that stand among template arguments, those with constructors have one of these
/// sets of fields.)
template <class V>
constexpr void add_values(Fingerprint& to, const V& value) {
  if constexpr (std::is_integral_v<V> || std::is_enum_v<V>)
    to.add(static_cast<std::uint64_t>(value));
  else if constexpr (std::is_floating_point_v<V>)
    to.add(std::bit_cast<std::uint64_t>(static_cast<double>(value)));
  else if constexpr (std::is_same_v<V, InitializerOption>)
    add_initializer(to, value);
  else if constexpr (std::is_array_v<V>)
    for (const auto& one : value) add_values(to, one);
  else if constexpr (std::is_aggregate_v<V>)
    with_fields(value, [&](const auto&... fields) { add_all(to, fields...); });
  else if constexpr (requires { value.height; })
    add_all(to, value.height, value.width);
  else if constexpr (requires { value.top; })
    add_all(to, value.top, value.bottom, value.left, value.right);
  else if constexpr (requires { value.is_given; })
    add_all(to, value.is_given, value.rows, value.columns);
  else if constexpr (requires { value.value; })
    add_values(to, value.value);
  else
    static_assert(!std::is_same_v<V, V>,
                  "lockstep: signature cannot read a template argument of this type: use numbers "
                  "and aggregates of these, or give the layer a `static constexpr std::uint64_t "
                  "signature`");
}

template <class X>
constexpr void add_type(Fingerprint& to);

/// The template arguments of a type: all kinds of lists that the library has.
template <class X>
struct Arguments {
  static constexpr bool are_known = false;
};
struct KnownArguments {
  static constexpr bool are_known = true;
};
template <template <auto...> class L, auto... V>
struct Arguments<L<V...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) { add_all(to, V...); }
};
template <template <class...> class L, class... X>
struct Arguments<L<X...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) { (add_type<X>(to), ...); }
};
template <template <class, auto, auto...> class L, class X, auto V, auto... W>
struct Arguments<L<X, V, W...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) {
    add_type<X>(to);
    add_all(to, V, W...);
  }
};
template <template <class, class, auto, auto...> class L, class X, class Y, auto V, auto... W>
struct Arguments<L<X, Y, V, W...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) {
    add_type<X>(to);
    add_type<Y>(to);
    add_all(to, V, W...);
  }
};
template <template <auto, class, auto...> class L, auto V, class X, auto... W>
struct Arguments<L<V, X, W...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) {
    add_values(to, V);
    add_type<X>(to);
    add_all(to, W...);
  }
};
template <template <auto, auto, class, auto...> class L, auto V, auto U, class X, auto... W>
struct Arguments<L<V, U, X, W...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) {
    add_all(to, V, U);
    add_type<X>(to);
    add_all(to, W...);
  }
};
template <template <auto, auto, class, class, auto...> class L, auto V, auto U, class X, class Y,
          auto... W>
struct Arguments<L<V, U, X, Y, W...>> : KnownArguments {
  static constexpr void add(Fingerprint& to) {
    add_all(to, V, U);
    add_type<X>(to);
    add_type<Y>(to);
    add_all(to, W...);
  }
};

template <class X>
constexpr void add_type(Fingerprint& to) {
  constexpr bool has_number = requires { X::signature; };
  if constexpr (has_number) {
    to.add(static_cast<std::uint64_t>(X::signature));
  } else {
    static_assert(
        Arguments<X>::are_known || requires { X::name; },
        "lockstep: signature cannot tell this type from others: give it a `static constexpr "
        "std::uint64_t signature`, of another value after each change");
    if constexpr (requires { X::name; }) to.add(std::string_view(X::name));
    if constexpr (requires { typename X::Content; })
      add_type<typename X::Content>(to);
    else if constexpr (Arguments<X>::are_known)
      Arguments<X>::add(to);
    to.add(std::uint64_t{0});  // the end of the list
  }
}

constexpr void add_variables(Fingerprint& to, std::span<const Variable> variables) {
  to.add(variables.size());
  for (const Variable& variable : variables) {
    to.add(variable.name);
    for (const std::size_t extent : variable.shape()) to.add(extent);
    add_initializer(to, variable.initializer);
    add_all(to, variable.fans, variable.regularizer, variable.constraint, variable.is_constant);
  }
}
constexpr void add_layers(Fingerprint& to, std::span<const LayerInfo> layers) {
  for (const LayerInfo& layer : layers) {
    to.add(layer.name);
    for (const std::size_t extent : layer.output_extents) to.add(extent);
    add_variables(to, layer.variables);
    add_variables(to, layer.state_variables);
    add_layers(to, layer.layers);
  }
}

}  // namespace detail

/// A number that any change of a model, or of a layer, changes: of its layers, their order, shapes,
/// activations, options and initial values. All compilers compute the same. A program that commits
/// it notices an unintended change:
/// @code
/// static_assert(ls::signature<Net> == 0x1d3c5f8b0a6e2947, "Net has changed: do files still fit?");
/// @endcode
/// A layer of the program's own counts with its name, its template arguments and its variables, not
/// with the code of its functions; it may have a `static constexpr std::uint64_t signature`
/// instead, and must where its template parameters stand in an order that no layer here has. A
/// struct that inherits from a layer is such a layer: write `signature = ls::signature<Base>`.
/// Initial values by a function are all alike. A release of the library may change the number, and
/// says so.
/// Use: `signature<Sequential<Input<20>, Dense<3>>>`. Keras: none.
template <class Net>
inline constexpr std::uint64_t signature = [] {
  detail::Fingerprint number;
  detail::add_type<Net>(number);
  if constexpr (requires { typename Net::InputShape; })
    if constexpr (!std::is_void_v<typename Net::InputShape>)
      detail::add_layers(number, Net::template layers<typename Net::InputShape>);
  return number.value();
}();

}}  // namespace lockstep
