#include "lockstep/callbacks/hooks.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

namespace {

struct Function {
  void on_epoch_end();
};
struct Overloaded {
  void on_epoch_end();
  void on_epoch_end(int);
};
struct Template {
  template <class T>
  void on_epoch_end(T);
};
struct Data {
  int on_epoch_end;
};
struct Type {
  struct on_epoch_end {};
};
struct Inherited : Overloaded {};
class Private {
  void on_epoch_end();
};
struct Final final {
  void on_epoch_end();
};
struct None {
  void on_epoch_ending();
};
union Union {
  int on_epoch_end;
};

static_assert(ls::detail::has_on_epoch_end<Function>() &&
              ls::detail::has_on_epoch_end<Overloaded>());
static_assert(ls::detail::has_on_epoch_end<Template>() && ls::detail::has_on_epoch_end<Data>());
static_assert(ls::detail::has_on_epoch_end<Type>() && ls::detail::has_on_epoch_end<Inherited>());
static_assert(ls::detail::has_on_epoch_end<Private>() && ls::detail::has_on_epoch_end<Final>());
static_assert(ls::detail::has_on_epoch_end<const Function>());
static_assert(!ls::detail::has_on_epoch_end<None>() && !ls::detail::has_on_epoch_begin<Function>());
static_assert(!ls::detail::has_on_epoch_end<int>() && !ls::detail::has_on_epoch_end<Union>());
static_assert(!ls::detail::has_on_epoch_end<decltype([] {})>());

struct Several {
  void on_epoch_end(ls::Training&, int, ls::Logs&);
  void on_epoch_begin(int);
};
static_assert(ls::detail::has_hook<Several>() && !ls::detail::hooks_are_callable<Several>());
static_assert(!ls::detail::has_hook<None>() && ls::detail::hooks_are_callable<None>());
static_assert(!ls::detail::has_near_miss<Several>());
struct NearMiss : Several {
  void on_step_end();
};
static_assert(ls::detail::has_near_miss<NearMiss>());

}  // namespace

TEST_CASE("hooks are found by name, whatever kind of member they are") {}  // at compile time
