// expect-error: a callback has a hook with the wrong arguments: write on_epoch_begin.Training&, int
#include <lockstep/callbacks/callback_list.hpp>

namespace ls = lockstep;

struct Hello {
#ifdef LOCKSTEP_COMPILE_FAIL
  void on_epoch_end(int, ls::Logs&) {}
#else
  void on_epoch_end(ls::Training&, int, ls::Logs&) {}
#endif
};

int main() {
  Hello hello;
  const ls::CallbackList<Hello> list(hello);
}
