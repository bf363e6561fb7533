#include "lockstep/checkpoint/weights_file.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/npz.hpp"
#include "lockstep/checkpoint/safetensors.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("weights file: the extension chooses the format, and what was written comes back") {
  for (const char* path : {"a.safetensors", "b/c.npz", "weights", "a.npz.ckpt"}) {
    CAPTURE(path);
    CHECK(ls::decode_weights(path, ls::encode_weights(path, some_arrays())) == some_arrays());
  }
  CHECK(ls::encode_weights("a.safetensors", some_arrays()) == ls::encode_safetensors(some_arrays()));
  CHECK(ls::encode_weights("a.npz", some_arrays()) == ls::encode_npz(some_arrays()));
  CHECK(ls::decode_checkpoint(ls::encode_weights("a", some_arrays())).signature.empty());
  CHECK_THROWS_AS((void)ls::decode_weights("a.npz", ls::encode_safetensors(some_arrays())), ls::DataError);
}

TEST_CASE("weights file: of a whole training state its parameters and untrained state are taken") {
  const auto arrays = ls::decode_weights("state", ls::encode_checkpoint(full_state()));
  REQUIRE(arrays.size() == 3);
  CHECK(arrays[0] == full_state().parameters[0]);
  CHECK(arrays[2] == full_state().state[0]);
}

TEST_CASE("weights file: float32 and float64 are converted into each other") {
  const double values[] = {0.5, -3, 1e300};
  ls::SavedArray array{.name = "a", .scalar = "float64", .extents = {3}, .bytes = std::vector<std::byte>(24)};
  std::memcpy(array.bytes.data(), values, 24);
  CHECK(ls::convert_array(array, "float64") == array);
  const ls::SavedArray narrow = ls::convert_array(array, "float32");
  CHECK(narrow.scalar == "float32");
  float narrowed[3];
  REQUIRE(narrow.bytes.size() == sizeof narrowed);
  std::memcpy(narrowed, narrow.bytes.data(), sizeof narrowed);
  CHECK(narrowed[0] == 0.5F);
  CHECK(narrowed[1] == -3);
  CHECK(narrowed[2] == std::numeric_limits<float>::infinity());
  const ls::SavedArray wide = ls::convert_array(narrow, "float64");
  CHECK(std::memcmp(wide.bytes.data(), values, 16) == 0);
  CHECK_THROWS_AS((void)ls::convert_array(array, "int8"), ls::DataError);
}
