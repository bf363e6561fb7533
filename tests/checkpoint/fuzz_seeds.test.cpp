// The files that the fuzzers of tests/fuzz/ start from. With LOCKSTEP_WRITE_SEEDS set, they are
// written.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "support/source_path.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

void check_seed(const std::string& name, const std::vector<std::byte>& bytes) {
  const std::string path = lockstep_test::source_path("tests/fuzz/corpus/" + name);
  if (std::getenv("LOCKSTEP_WRITE_SEEDS") != nullptr) ls::write_file_atomically(path, bytes);
  CAPTURE(path);
  const auto seed = ls::read_file(path);
  REQUIRE(seed.has_value());
  CHECK(*seed == bytes);
}

}  // namespace

TEST_CASE("fuzz seeds: what the encoders write") {
  const std::vector<ls::SavedArray> one = {some_arrays().front()};
  check_seed("safetensors/one", ls::encode_safetensors(one));
  check_seed("safetensors/several", ls::encode_safetensors(some_arrays()));
  check_seed("npz/one", ls::encode_npz(one));
  check_seed("npz/several", ls::encode_npz(some_arrays()));
  check_seed("checkpoint/empty", ls::encode_checkpoint({}));
  check_seed("checkpoint/full", ls::encode_checkpoint(full_state()));
}
