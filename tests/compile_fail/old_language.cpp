// A language older than C++20 is the only error, whichever header comes first.
// expect-error: lockstep needs C..20: compile with -std=c..20
// expect-count: 2
// flags: -std=gnu++17
// expect-error 2: lockstep needs C..20: compile with -std=c..20
// expect-count 2: 2
// flags 2: -std=gnu++14
// expect-error 3: lockstep needs C..20: compile with -std=c..20
// expect-count 3: 2
// flags 3: -std=c++17
#if LOCKSTEP_COMPILE_FAIL == 1
#include <lockstep/lockstep.hpp>
#elif LOCKSTEP_COMPILE_FAIL == 2
#include <lockstep/local.hpp>
#elif LOCKSTEP_COMPILE_FAIL == 3
#include <lockstep/model/model.hpp>
#else
#include <lockstep/core/config.hpp>
#endif

int main() {}
