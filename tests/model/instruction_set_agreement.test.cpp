// Ranks with other processors: all use the lowest instruction set.
#include <doctest/doctest.h>

#include <algorithm>

#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// As if there were another rank, whose processor has the baseline alone, and which has nothing to
/// add to any sum.
class WithOldNeighbour : public ls::Single {
 public:
  void all_reduce(ls::NumberSpan values, ls::ReduceOp op) override {
    if (op == ls::ReduceOp::max)
      ls::visit_type(values.type(), [&]<class T>(T*) {
        for (T& value : values.as<T>())
          value = std::max(value, -static_cast<T>(ls::InstructionSet::baseline));
      });
  }
};

class OldNeighbourStrategy : public ls::OneDeviceStrategy {
 public:
  using Replica = ls::AnyReplica;
  template <class F>
  void run(F&& f) {
    Replica replica(ls::any_collective(WithOldNeighbour{}), 0, 1);
    f(replica);
  }
};

}  // namespace

TEST_CASE("compile: all ranks use the lowest instruction set of any") {
  const ls::InstructionSet before = ls::kernels::instruction_set();
  OldNeighbourStrategy strategy;
  const auto model = ls::compile<TinyNet>(
      strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
  CHECK(ls::kernels::instruction_set() == ls::InstructionSet::baseline);
  ls::kernels::set_instruction_set(before);
}
