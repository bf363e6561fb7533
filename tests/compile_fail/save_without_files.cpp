// expect-error: to save or load a model, #include <lockstep/saving/model_files.hpp>
#include <lockstep/local.hpp>
#ifndef LOCKSTEP_COMPILE_FAIL
#include <lockstep/saving/model_files.hpp>
#endif

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<10>>;

int main() {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Net>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
  model.save("model");
}
