#include "lockstep/checkpoint/weights_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// 0.5, 1.5, 2.5, ... in either type.
template <class T>
ls::SavedArray counting(const char* name, std::vector<std::uint64_t> extents, std::size_t size) {
  std::vector<std::byte> bytes(size * sizeof(T));
  for (std::size_t i = 0; i < size; ++i) {
    const T value = static_cast<T>(i) + T(0.5);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return {.name = name,
          .scalar = ls::detail::scalar_name<T>(),
          .extents = std::move(extents),
          .bytes = std::move(bytes)};
}

std::vector<ls::SavedArray> arrays() {
  return {counting<float>("conv2d/kernel", {3, 3, 1, 2}, 18),
          counting<double>("dense/bias", {5}, 5), counting<float>("scalar", {}, 1),
          counting<float>("none", {0, 2}, 0)};
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

void write(const std::string& path) {
  ls::write_file_atomically(path, ls::encode_weights(path, arrays()));
}

/// What Python wrote: the same arrays, in whatever order.
void check(const std::string& path) {
  const auto bytes = ls::read_file(path);
  REQUIRE(bytes.has_value());
  const auto got = ls::decode_weights(path, *bytes);
  CHECK(got.size() == arrays().size());
  for (const ls::SavedArray& array : arrays())
    CHECK(std::count(got.begin(), got.end(), array) == 1);
}

}  // namespace

TEST_CASE("weights file: the extension chooses the format, and what was written comes back") {
  for (const char* path : {"a.safetensors", "b/c.npz", "weights", "a.npz.ckpt"}) {
    CAPTURE(path);
    CHECK(ls::decode_weights(path, ls::encode_weights(path, some_arrays())) == some_arrays());
  }
  CHECK(ls::encode_weights("a.safetensors", some_arrays()) ==
        ls::encode_safetensors(some_arrays()));
  CHECK(ls::encode_weights("a.npz", some_arrays()) == ls::encode_npz(some_arrays()));
  CHECK(ls::decode_checkpoint(ls::encode_weights("a", some_arrays())).signature.empty());
  CHECK_THROWS_AS((void)ls::decode_weights("a.npz", ls::encode_safetensors(some_arrays())),
                  ls::DataError);
}

TEST_CASE("weights file: of a whole training state its parameters and untrained state are taken") {
  const auto arrays = ls::decode_weights("state", ls::encode_checkpoint(full_state()));
  REQUIRE(arrays.size() == 3);
  CHECK(arrays[0] == full_state().parameters[0]);
  CHECK(arrays[2] == full_state().state[0]);
}

TEST_CASE("weights file: float32 and float64 are converted into each other") {
  const double values[] = {0.5, -3, 1e300};
  ls::SavedArray array{
      .name = "a", .scalar = "float64", .extents = {3}, .bytes = std::vector<std::byte>(24)};
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

TEST_CASE(
    "weights file: two arrays of one name, or a name that is no UTF-8, are not written: no program "
    "could load them") {
  for (const char* path : {"a.safetensors", "a.npz", "a"}) {
    CAPTURE(path);
    auto twice = some_arrays();
    twice[2].name = twice[0].name;
    CHECK(contains(message_of<ls::DataError>([&] { (void)ls::encode_weights(path, twice); }),
                   "two arrays are named 'dense/kernel'"));
    auto wrong = some_arrays();
    wrong[1].name = "latin \xE9";
    CHECK(contains(message_of<ls::DataError>([&] { (void)ls::encode_weights(path, wrong); }),
                   "is no UTF-8"));
  }
}

TEST_CASE("weights file: names of other programs' formats are refused") {
  for (const char* const path : {"x.pt", "x.pth", "x.onnx"}) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS((void)ls::encode_weights(path, arrays()), doctest::Contains("safetensors"),
                         ls::ConfigurationError);
    CHECK_THROWS_WITH_AS(ls::check_weights_path("load_weights", path, true),
                         doctest::Contains("load_weights: 'x."), ls::ConfigurationError);
    CHECK_THROWS_WITH_AS(ls::refuse_weights_format("save", path), doctest::Contains("save: 'x."),
                         ls::ConfigurationError);
  }
}

TEST_CASE("weights file: a file is refused by its beginning and its size, before it is read") {
  const auto refusal = [](const char* path, std::vector<std::byte> bytes, std::uint64_t size) {
    bytes.resize(std::min(bytes.size(), ls::checked_head));
    return message_of<ls::DataError>([&] { ls::weights_check(path, 100)(bytes, size); });
  };
  constexpr std::uint64_t large = std::uint64_t{8} << 30;
  for (const char* path : {"a.safetensors", "a.npz", "a"}) {
    CAPTURE(path);
    const auto bytes = ls::encode_weights(path, some_arrays());
    CHECK(refusal(path, bytes, bytes.size()) == "NO EXCEPTION");
    CHECK(refusal(path, bytes, large) != "NO EXCEPTION");
    CHECK(refusal(path, std::vector<std::byte>(64), large) != "NO EXCEPTION");
    CHECK(refusal(path, {}, 0) != "NO EXCEPTION");
  }
  CHECK(contains(refusal("a.npz", ls::encode_weights("a.npz", some_arrays()), large),
                 "of weights for this model"));
  CHECK(contains(refusal("a.npz", std::vector<std::byte>(64), large), "no zip file"));
  CHECK(contains(refusal("a.safetensors", std::vector<std::byte>(64), large),
                 "does not begin with '{'"));
}

TEST_CASE("weights file: another file in place of one with weights is called by its name") {
  const auto refusal = [](const char* path, std::string_view text) {
    return message_of<ls::DataError>([&] {
      ls::weights_check(path, 100)(std::as_bytes(std::span(text.substr(0, ls::checked_head))),
                                   text.size());
    });
  };
  using namespace std::string_view_literals;
  const std::pair<std::string_view, std::string_view> others[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"sv, "a Git LFS pointer"},
      {"<!DOCTYPE html>\n<html>"sv, "a page of HTML"},
      {"{\"metadata\": {\"total_size\": 1}, \"weight_map\": {}}"sv, "an index of shards"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\0"sv, "compressed with gzip"},
      {"\x93NUMPY\1\0v\0{"sv, "an array of NumPy"},
      {"\x80\2}q\0X\4\0\0\0\0"sv, "a pickle of Python"}};
  for (const char* path : {"a.safetensors", "a.npz", "a", "a.weights.h5", "a.keras"})
    for (const auto& other : others) {
      CAPTURE(path);
      CAPTURE(other.second);
      CHECK(contains(refusal(path, other.first), "; it is " + std::string(other.second)));
    }
  for (const char* path : {"a.safetensors", "a", "a.weights.h5"})
    CHECK(contains(refusal(path, "PK\3\4\x14\0\0\0\0\0\0\0"sv), "; it is a zip file"));
  for (const char* path : {"a.safetensors", "a.npz", "a", "a.keras"})
    CHECK(contains(refusal(path, "\x89HDF\r\n\x1a\n\0\0\0\0"sv), "; it is an HDF5 file"));
  for (const char* path : {"model.weights.json", "model.safetensors.index.json"})
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { ls::check_weights_path("load_weights", path, true); }),
                   "an index of shards names the files"));
  // A safetensors file begins with the size of its header, which may look like anything.
  std::string text("\x80\2\0\0\0\0\0\0{}"sv);
  text.resize(8 + 0x280, ' ');
  CHECK(refusal("a.safetensors", text) == "NO EXCEPTION");
}

TEST_CASE("weights file: the decompressed size has a limit, too") {
  const auto npz = ls::encode_weights("a.npz", some_arrays());
  CHECK(contains(message_of<ls::DataError>([&] { (void)ls::decode_npz_at_most(300, npz); }),
                 "and of all arrays at most 300 are read"));
  CHECK(ls::decode_npz_at_most(4 * (128 + 24), npz) == some_arrays());
}

TEST_SUITE("weights in Python [needs python]") {
  TEST_CASE("Python's safetensors reads what we write, and we read what it writes") {
    if (!has_python_modules("safetensors, both ways", "numpy, safetensors.numpy")) return;
    const TemporaryFolder folder;
    const std::string ours = folder.path("ours.safetensors"),
                      theirs = folder.path("theirs.safetensors");
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
