// Three translation units include everything. That they link shows that nothing is defined twice;
// that each trains the same little model to the same loss shows that the linker did not mix up code
// for different instruction sets.

#include <cmath>
#include <cstdio>

#include "link/train.hpp"

double train_in_other();
double train_in_native();

int main() {
  const double here = train(), other = train_in_other(), native = train_in_native();
  std::printf("loss: %.9g here, %.9g in other.cpp, %.9g in native.cpp\n", here, other, native);
  const bool same = here == other && std::abs(native - here) <= 1e-5 * std::abs(here);
  return same ? 0 : 1;
}
