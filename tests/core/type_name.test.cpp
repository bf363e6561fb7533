#include "lockstep/core/type_name.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lockstep/core/logs.hpp"

namespace ls = lockstep;

namespace somewhere {
struct Callback {};
template <class T>
struct Holder {};
}  // namespace somewhere

TEST_CASE("type_name: the name alone, whatever encloses the type") {
  struct Local {};
  CHECK(ls::detail::type_name<int>() == "int");
  CHECK(ls::detail::type_name<somewhere::Callback>() == "Callback");
  CHECK(ls::detail::type_name<somewhere::Holder<somewhere::Callback>>() ==
        "Holder<somewhere::Callback>");
  CHECK(ls::detail::type_name<Local>() == "Local");
  CHECK(ls::detail::full_type_name<somewhere::Callback>() == "somewhere::Callback");
  static_assert(ls::detail::is_own_type<ls::Logs>);
  static_assert(!ls::detail::is_own_type<somewhere::Callback> &&
                !ls::detail::is_own_type<std::vector<ls::Logs>>);
}
