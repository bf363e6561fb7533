// expect-error: a callback has no hook that fit would call: give it one
#include <lockstep/callbacks/callback_list.hpp>

namespace ls = lockstep;

struct Hello {
#ifdef LOCKSTEP_COMPILE_FAIL
  void greet(ls::Training&, int) {}
#else
  void on_epoch_begin(ls::Training&, int) {}
#endif
};

int main() {
  Hello hello;
  const ls::CallbackList<Hello> list(hello);
}
