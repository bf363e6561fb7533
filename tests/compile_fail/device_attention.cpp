// expect-error: on the device MultiHeadAttention has no groups of heads, no sliding_window and no
#include <lockstep/extra/cuda/sequences.hpp>

namespace ls = lockstep;

struct Device {};
#ifdef LOCKSTEP_COMPILE_FAIL
using Attention = ls::GroupQueryAttention<8, 4, 2>;
#else
using Attention = ls::MultiHeadAttention<4, 8>;
#endif

int main() { return sizeof(ls::DeviceLayer<Device, Attention>::Type) == 0; }
