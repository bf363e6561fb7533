// Files of weights, to and from the real Python packages.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep::testing::Finished;
using lockstep::testing::has_python_modules;
using lockstep::testing::run_python;
using lockstep_test::TemporaryFolder;

namespace {

/// 0.5, 1.5, 2.5, ... in either type.
template <class T>
ls::SavedArray counting(const char* name, std::vector<std::uint64_t> extents, std::size_t size) {
  std::vector<std::byte> bytes(size * sizeof(T));
  for (std::size_t i = 0; i < size; ++i) {
    const T value = static_cast<T>(i) + T(0.5);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return {
      .name = name, .scalar = ls::detail::scalar_name<T>(), .extents = std::move(extents), .bytes = std::move(bytes)};
}

std::vector<ls::SavedArray> arrays() {
  return {counting<float>("conv2d/kernel", {3, 3, 1, 2}, 18), counting<double>("dense/bias", {5}, 5),
          counting<float>("scalar", {}, 1), counting<float>("none", {0, 2}, 0)};
}

constexpr const char* checks = R"(
import sys, numpy as np
expected = {"conv2d/kernel": ((3, 3, 1, 2), "float32"), "dense/bias": ((5,), "float64"),
            "scalar": ((), "float32"), "none": ((0, 2), "float32")}
made = {name: (np.arange(np.prod(shape, dtype=int)) + 0.5).astype(dtype).reshape(shape)
        for name, (shape, dtype) in expected.items()}
def check(got):
    assert set(got) == set(made), sorted(got)
    for name, array in made.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert (got[name] == array).all(), name
)";

void write(const std::string& path) { ls::write_file_atomically(path, ls::encode_weights(path, arrays())); }

/// What Python wrote: the same arrays, in whatever order.
void check(const std::string& path) {
  const auto bytes = ls::read_file(path);
  REQUIRE(bytes.has_value());
  const auto got = ls::decode_weights(path, *bytes);
  CHECK(got.size() == arrays().size());
  for (const ls::SavedArray& array : arrays()) CHECK(std::count(got.begin(), got.end(), array) == 1);
}

}  // namespace

TEST_SUITE("weights in Python [needs python]") {
  TEST_CASE("Python's safetensors reads what we write, and we read what it writes") {
    if (!has_python_modules("safetensors, both ways", "numpy, safetensors.numpy")) return;
    const TemporaryFolder folder;
    const std::string ours = folder.path("ours.safetensors"), theirs = folder.path("theirs.safetensors");
    write(ours);
    const Finished finished = run_python(std::string(checks) + R"(
from safetensors.numpy import load_file, save_file
check(load_file(sys.argv[1]))
save_file(made, sys.argv[2], metadata={"format": "np"})
)",
                                         {ours, theirs});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    check(theirs);
  }

  TEST_CASE("NumPy reads the .npz that we write, and we read what it writes") {
    if (!has_python_modules(".npz, both ways", "numpy")) return;
    const TemporaryFolder folder;
    const std::string ours = folder.path("ours.npz"), theirs = folder.path("theirs.npz");
    write(ours);
    const Finished finished = run_python(std::string(checks) + R"(
check(dict(np.load(sys.argv[1])))
np.savez(sys.argv[2], **made)
np.savez_compressed(sys.argv[2].replace("theirs", "small"), **made)
np.savez(sys.argv[2].replace("theirs", "fortran"), **{n: np.asfortranarray(a) if a.ndim else a for n, a in made.items()})
np.savez(sys.argv[2].replace("theirs", "half"), half=np.array([[1.5, -2], [65504, 6e-8]], "float16"))
)",
                                         {ours, theirs});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    check(theirs);
    check(folder.path("fortran.npz"));
#if defined(LOCKSTEP_HAS_ZLIB)
    check(folder.path("small.npz"));
#endif
    const auto half = ls::decode_weights("half.npz", *ls::read_file(folder.path("half.npz")));
    REQUIRE(half.size() == 1);
    float values[4];
    REQUIRE(half[0].bytes.size() == sizeof values);
    std::memcpy(values, half[0].bytes.data(), sizeof values);
    CHECK(values[0] == 1.5F);
    CHECK(values[2] == 65504);
    CHECK(values[3] == 0x1p-24F);
  }
}
