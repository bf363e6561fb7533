// expect-error: a callback has a member whose name looks like a misspelled hook.*on_{train,epoch,train_batch
#include <lockstep/callbacks/callback_list.hpp>

namespace ls = lockstep;

struct Hello {
#ifdef LOCKSTEP_COMPILE_FAIL
  void on_epoch_start(ls::Training&, int) {}
#else
  void on_epoch_begin(ls::Training&, int) {}
#endif
  void on_epoch_end(ls::Training&, int, ls::Logs&) {}
};

int main() {
  Hello hello;
  const ls::CallbackList<Hello> list(hello);
}
