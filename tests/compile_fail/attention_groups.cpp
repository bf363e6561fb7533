// expect-error: divide those of queries: each serves as many of them
#include <lockstep/layers/attention.hpp>
#include <lockstep/layers/embedding.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Attention = ls::GroupQueryAttention<8, 4, 3>;
#else
using Attention = ls::GroupQueryAttention<8, 4, 2>;
#endif
using Model = ls::Sequential<ls::Input<4>, ls::Embedding<7, 6>, Attention>;

int main() { return Model::parameter_count == 0; }
