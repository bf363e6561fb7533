// expect-error: Recompute does not run on the device: put its layers there without it
#include <lockstep/extra/cuda/layers.hpp>

namespace ls = lockstep;

struct Device {};
#ifdef LOCKSTEP_COMPILE_FAIL
using Block = ls::Sequential<ls::Recompute<ls::Dense<4>>, ls::Dense<8>>;
#else
using Block = ls::Sequential<ls::Dense<4>, ls::Dense<8>>;
#endif

int main() { return sizeof(ls::DeviceLayer<Device, Block>::Type) == 0; }
