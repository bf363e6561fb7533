// Files of HDF5, which its own library reads and writes. This file alone of its folder is compiled
// with it, where it is there, and so tests hdf5_library and hdf5_file.
#include "lockstep/checkpoint/weights_file.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/damage.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/source_path.hpp"
#include "support/temporary_folder.hpp"

#if defined(LOCKSTEP_HAS_HDF5)

namespace ls = lockstep;
using namespace lockstep_test;
using Bytes = std::vector<std::byte>;

namespace {

constexpr std::uint64_t plenty = std::uint64_t{1} << 20;
constexpr std::size_t all = 1000;

Bytes sample(const char* name) {
  return ls::read_file(source_path(std::string("tests/saving/samples/") + name)).value();
}

ls::KerasWeights decode(std::span<const std::byte> bytes, std::uint64_t most = plenty,
                        std::size_t variables = all) {
  REQUIRE(ls::detail::hdf5_codec != nullptr);
  return ls::detail::hdf5_codec->decode(bytes, most, variables);
}

template <class T>
std::vector<T> values(const ls::SavedArray& array) {
  CHECK(array.scalar == ls::detail::scalar_name<T>());
  std::vector<T> elements(array.bytes.size() / sizeof(T));
  std::memcpy(elements.data(), array.bytes.data(), array.bytes.size());
  return elements;
}

template <class T>
ls::SavedArray array(const char* name, std::vector<std::uint64_t> extents,
                     const std::vector<T>& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  return {.name = name,
          .scalar = ls::detail::scalar_name<T>(),
          .extents = std::move(extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

/// The bytes of a file that `fill` writes with HDF5.
template <class Fill>
Bytes file_of(const Fill& fill) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.h5");
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(file >= 0);
  fill(file);
  REQUIRE(H5Fclose(file) >= 0);
  return ls::read_file(path).value();
}

/// A dataset that says it has these extents; without `elements`, it has not been written.
void put_dataset(hid_t group, const char* name, std::vector<hsize_t> extents, hid_t how,
                 hid_t type = H5T_IEEE_F32LE, const void* elements = nullptr,
                 hid_t elements_type = H5T_NATIVE_FLOAT) {
  const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
  const hid_t set = H5Dcreate2(group, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  CHECK(set >= 0);
  if (elements != nullptr)
    CHECK(H5Dwrite(set, elements_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements) >= 0);
  H5Dclose(set);
  H5Sclose(space);
}

void put_group(hid_t file, const char* path) {
  const hid_t group = H5Gcreate2(file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CHECK(group >= 0);
  H5Gclose(group);
}

/// An optimizer's count of steps, `steps`, or one that is not there, and an array.
Bytes optimizer_file(const std::vector<std::int64_t>& steps) {
  return file_of([&](hid_t file) {
    put_group(file, "optimizer");
    put_group(file, "optimizer/vars");
    const float rate = 0.5F;
    if (!steps.empty())
      put_dataset(file, "optimizer/vars/0", {steps.size()}, H5P_DEFAULT, H5T_STD_I64LE,
                  steps.data(), H5T_NATIVE_INT64);
    put_dataset(file, "optimizer/vars/1", {1}, H5P_DEFAULT, H5T_IEEE_F32LE, &rate);
  });
}

std::string refusal(const Bytes& bytes, std::uint64_t most = plenty) {
  return message_of<ls::DataError>([&] { (void)decode(bytes, most); });
}

/// Two layers, of which one has a number that Keras alone has.
ls::KerasLayout two_layers() {
  return {{{.path = "layers/dense", .name = "dense", .variables = {"dense/kernel", "dense/bias"}},
           {.path = "layers/dropout", .name = "dropout", .variables = {"", "dropout/rate"}}}};
}
std::vector<ls::SavedArray> two_layers_arrays() {
  return {array<float>("dense/kernel", {2, 3}, {1, 2, 3, 4, 5, -0.5}),
          array<float>("dense/bias", {3}, {0.25, 0, 1e-30F}),
          array<double>("dropout/rate", {}, {0.1})};
}
ls::KerasOptimizer some_optimizer() {
  return {.name = "adam",
          .iterations = 5'000'000'000,
          .variables = {array<float>("", {}, {0.01F}), array<float>("", {2}, {3, 4})}};
}

}  // namespace

TEST_SUITE("HDF5 [needs library]") {
  TEST_CASE("HDF5: what Keras 3 wrote: the arrays of the layers, by their place") {
    const ls::KerasWeights weights = decode(sample("keras.weights.h5"));
    // What make_golden_keras_weights.py has put there: j-th element of the i-th array of the model.
    struct Expected {
      const char* name;
      int i;
      std::vector<std::uint64_t> extents;
    };
    const std::vector<Expected> expected = {
        {"dense/0", 4, {2, 1}},     {"dense/1", 5, {1}},        {"dense_1/0", 6, {2, 4}},
        {"dense_1/1", 7, {4}},      {"dense_2/0", 8, {1, 4}},   {"dense_2/1", 9, {4}},
        {"dense_3/0", 10, {4, 3}},  {"dense_3/1", 11, {3}},     {"embedding/0", 0, {5, 2}},
        {"lstm/cell/0", 1, {2, 8}}, {"lstm/cell/1", 2, {2, 8}}, {"lstm/cell/2", 3, {8}}};
    REQUIRE(weights.arrays.size() == expected.size());
    for (std::size_t n = 0; n < expected.size(); ++n) {
      CAPTURE(expected[n].name);
      CHECK(weights.arrays[n].name == expected[n].name);
      CHECK(weights.arrays[n].extents == expected[n].extents);
      const std::vector<float> elements = values<float>(weights.arrays[n]);
      for (std::size_t j = 0; j < elements.size(); ++j)
        CHECK(elements[j] == static_cast<float>(static_cast<int>(j) - 3 * expected[n].i) / 8);
    }
  }

  TEST_CASE("HDF5: the optimizer of Keras 3, or of one with too many variables their number") {
    const Bytes bytes = sample("keras_adam.weights.h5");
    const ls::KerasWeights weights = decode(bytes, plenty, 18);
    REQUIRE(weights.optimizer);
    CHECK(weights.optimizer->iterations == 4);
    CHECK(weights.optimizer->count == 18);
    REQUIRE(weights.optimizer->variables.size() == 17);
    CHECK(values<float>(weights.optimizer->variables[0]) == std::vector<float>{0.01F});
    CHECK(weights.optimizer->variables[1].name == "optimizer/vars/2");
    CHECK(weights.optimizer->variables[1].extents == std::vector<std::uint64_t>{4, 3});
    const ls::KerasWeights without = decode(bytes, plenty, 17);
    REQUIRE(without.optimizer);
    CHECK(without.optimizer->name == weights.optimizer->name);
    CHECK(without.optimizer->count == 18);
    CHECK(without.optimizer->variables.empty());
    CHECK(without.arrays == weights.arrays);
  }

  TEST_CASE("HDF5: what is written comes back, the same bytes each time") {
    const auto encode = [](const ls::KerasOptimizer& optimizer) {
      return ls::detail::hdf5_codec->encode(two_layers_arrays(), two_layers(), optimizer);
    };
    const Bytes bytes = encode(some_optimizer());
    CHECK(encode(some_optimizer()) == bytes);
    const ls::KerasWeights weights = decode(bytes);
    std::vector<ls::SavedArray> expected = two_layers_arrays();
    expected[0].name = "dense/0";
    expected[1].name = "dense/1";
    expected[2].name = "dropout/1";  // 0 is the whole number
    CHECK(weights.arrays == expected);
    REQUIRE(weights.optimizer);
    CHECK(weights.optimizer->name == "adam");
    CHECK(weights.optimizer->iterations == 5'000'000'000);
    CHECK(weights.optimizer->count == 3);
    CHECK(values<float>(weights.optimizer->variables.at(1)) == std::vector<float>{3, 4});
    CHECK_FALSE(decode(encode({})).optimizer.has_value());
  }

  TEST_CASE("HDF5: a variable without a place, and a place without its variable, are refused") {
    const auto message = [](std::vector<ls::SavedArray> arrays, const ls::KerasLayout& layout) {
      return message_of<ls::DataError>(
          [&] { (void)ls::detail::hdf5_codec->encode(arrays, layout, {}); });
    };
    CHECK(message(two_layers_arrays(), {}) ==
          "HDF5: dense/bias: this variable has no place in Keras's file: the model does not tell "
          "its layers");
    auto fewer = two_layers_arrays();
    fewer.pop_back();
    CHECK(message(fewer, two_layers()) == "HDF5: dropout/rate: the model has no such variable");
  }

  TEST_CASE("HDF5: numbers of other sizes are widened, and whole numbers of layers left out") {
    const std::vector<float> written = {1.5, -2, 65504};
    const std::vector<double> wide = {1e-300, 2};
    const int count = 7;
    const ls::KerasWeights weights = decode(file_of([&](hid_t file) {
      const hid_t half = H5Tcopy(H5T_IEEE_F32LE);  // as NumPy's float16
      H5Tset_fields(half, 15, 10, 5, 0, 10);
      H5Tset_size(half, 2);
      H5Tset_ebias(half, 15);
      put_dataset(file, "a", {3}, H5P_DEFAULT, half, written.data());
      H5Tclose(half);
      put_dataset(file, "b", {3}, H5P_DEFAULT, H5T_IEEE_F32BE, written.data());
      put_dataset(file, "c", {2}, H5P_DEFAULT, H5T_IEEE_F64BE, wide.data(), H5T_NATIVE_DOUBLE);
      put_dataset(file, "d", {1}, H5P_DEFAULT, H5T_STD_I32LE, &count, H5T_NATIVE_INT);
    }));
    REQUIRE(weights.arrays.size() == 3);
    CHECK(values<float>(weights.arrays[0]) == written);
    CHECK(values<float>(weights.arrays[1]) == written);
    CHECK(values<double>(weights.arrays[2]) == wide);
  }

  TEST_CASE("HDF5: bfloat16, which h5py calls opaque, becomes float32; other such types are left") {
    const std::vector<std::uint16_t> bits = {0x3FC0, 0xC000, 0x7F80};
    const ls::KerasWeights weights = decode(file_of([&](hid_t file) {
      const hid_t type = H5Tcreate(H5T_OPAQUE, 2);
      for (const char* const name : {"a", "b"})
        put_dataset(file, name, {3}, H5P_DEFAULT, type, bits.data(), type);
      const hid_t space = H5Screate(H5S_SCALAR);
      H5Aclose(H5Acreate_by_name(file, "a", "dtype", H5T_NATIVE_INT, space, H5P_DEFAULT,
                                 H5P_DEFAULT, H5P_DEFAULT));
      H5Sclose(space);
      H5Tclose(type);
    }));
    REQUIRE(weights.arrays.size() == 1);
    CHECK(weights.arrays[0].name == "a");
    CHECK(values<float>(weights.arrays[0]) ==
          std::vector<float>{1.5, -2, std::numeric_limits<float>::infinity()});
  }

  TEST_CASE("HDF5: of an optimizer without its steps the number of its variables alone is told") {
    const ls::KerasWeights without = decode(optimizer_file({}));
    REQUIRE(without.optimizer);
    CHECK(without.optimizer->count == 1);
    CHECK(without.optimizer->variables.empty());
    const ls::KerasWeights with = decode(optimizer_file({7}));
    REQUIRE(with.optimizer);
    CHECK(with.optimizer->iterations == 7);
    REQUIRE(with.optimizer->variables.size() == 1);
    CHECK(with.arrays.empty());  // they are no layer's
    for (const std::vector<std::int64_t>& wrong :
         {std::vector<std::int64_t>{-1}, std::vector<std::int64_t>{1, 2}})
      CHECK(refusal(optimizer_file(wrong)) ==
            "HDF5: optimizer/vars/0: expected the number of steps, a whole number of 64 bits");
  }

  TEST_CASE("HDF5: two arrays at one place are refused") {
    const float zero = 0;
    CHECK(refusal(file_of([&](hid_t file) {
            for (const char* const path : {"layers", "layers/dense", "layers/dense/vars"})
              put_group(file, path);
            for (const char* const path : {"layers/dense/0", "layers/dense/vars/0"})
              put_dataset(file, path, {1}, H5P_DEFAULT, H5T_IEEE_F32LE, &zero);
          })) == "HDF5: layers/dense/vars/0: there are two arrays at 'dense/0'");
  }

  TEST_CASE("HDF5: what the library hands out is closed, and its failures say where and why") {
    hid_t id = -1;
    {
      const ls::detail::Hdf5Object object(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "here");
      id = object.id();
      CHECK(H5Iis_valid(id) > 0);
    }
    CHECK(H5Iis_valid(id) == 0);
    const ls::detail::Hdf5Session session;
    CHECK(contains(message_of<ls::DataError>([] {
                     const ls::detail::Hdf5Object none(H5Pcreate(-1), H5Pclose, "here\n");
                   }),
                   "HDF5: here?: the library cannot read it: "));
    CHECK(ls::detail::hdf5_checked(0, "here") == 0);
  }

  TEST_CASE("HDF5: one thread at a time uses the library, which prints nothing meanwhile") {
    H5E_auto2_t before = nullptr, meanwhile = nullptr, after = nullptr;
    void* data = nullptr;
    H5Eget_auto2(H5E_DEFAULT, &before, &data);
    CHECK((before != nullptr));  // it would print
    std::optional<ls::detail::Hdf5Session> session(std::in_place);
    H5Eget_auto2(H5E_DEFAULT, &meanwhile, &data);
    CHECK((meanwhile == nullptr));
    std::atomic<bool> has_begun = false;
    std::thread other([&] {
      const ls::detail::Hdf5Session waits;
      has_begun = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK_FALSE(has_begun);
    session.reset();
    other.join();
    CHECK(has_begun);
    H5Eget_auto2(H5E_DEFAULT, &after, &data);
    CHECK((after == before));
  }

  TEST_CASE("HDF5: a file that is cut off, or does not begin like one, is refused") {
    const Bytes bytes = sample("keras.weights.h5");
    for (std::size_t size = 0; size < bytes.size(); size += size < 600 ? 1 : 491) {
      CAPTURE(size);
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK_FALSE(
          decoded([](std::span<const std::byte> some) { return decode(some); }, cut).has_value());
    }
    CHECK(refusal(Bytes(bytes.begin(), bytes.end() - 1))
              .starts_with("HDF5: the file: the library cannot read it: truncated file"));
    Bytes changed = bytes;
    changed[1] ^= std::byte{1};
    CHECK(refusal(changed).starts_with("HDF5: the file: the library cannot read it: "));
  }

  TEST_CASE(
      "HDF5: what has no elements, too many, or those of other files, is refused by its name") {
    const Bytes huge = file_of([](hid_t file) {
      put_dataset(file, "huge", {hsize_t{1} << 40, 1024}, H5P_DEFAULT);
    });
    CHECK(
        contains(refusal(huge),
                 "HDF5: huge: it is (1099511627776, 1024) of float32, and of all arrays at most"));
    const std::vector<float> four(4);
    const Bytes two_arrays = file_of([&](hid_t file) {
      for (const char* const name : {"a", "b"})
        put_dataset(file, name, {4}, H5P_DEFAULT, H5T_IEEE_F32LE, four.data());
    });
    CHECK(decode(two_arrays, 32).arrays.size() == 2);
    CHECK(contains(refusal(two_arrays, 31), "HDF5: b: it is (4) of float32, and of all arrays"));
    CHECK(contains(
        refusal(file_of([](hid_t file) { put_dataset(file, "empty", {16}, H5P_DEFAULT); })),
        "HDF5: empty: it is (16), and the file has only 0 bytes of it"));
    CHECK(contains(refusal(file_of([](hid_t file) {
                     const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
                     H5Pset_external(how, "/etc/hostname", 0, 64);
                     put_dataset(file, "elsewhere", {16}, how);
                     H5Pclose(how);
                   })),
                   "HDF5: elsewhere: its elements are in other files"));
    CHECK(contains(refusal(file_of([](hid_t file) {
                     H5Lcreate_external("other.h5", "/x", file, "link", H5P_DEFAULT, H5P_DEFAULT);
                   })),
                   "HDF5: link: it is a link to another place, which is not followed"));
  }

  TEST_CASE("HDF5: arrays in parts, compressed or not, whose edges lie beyond the array") {
    std::vector<float> elements(5 * 7 * 3);
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i) / 8;
    for (const bool is_compressed : {false, true})
      for (const hsize_t rows : {hsize_t{1}, hsize_t{2}, hsize_t{5}}) {
        CAPTURE(rows);
        CAPTURE(is_compressed);
        const ls::KerasWeights weights = decode(file_of([&](hid_t file) {
          const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
          const hsize_t parts[] = {rows, 4, 2};
          H5Pset_chunk(how, 3, parts);
          if (is_compressed) {
            H5Pset_shuffle(how);
            H5Pset_deflate(how, 6);
          }
          put_dataset(file, "a", {5, 7, 3}, how, H5T_IEEE_F32LE, elements.data());
          put_dataset(file, "b", {5, 7, 3}, how, H5T_IEEE_F64BE, elements.data());
          H5Pclose(how);
        }));
        REQUIRE(weights.arrays.size() == 2);
        CHECK(values<float>(weights.arrays[0]) == elements);
        CHECK(values<double>(weights.arrays[1]) ==
              std::vector<double>(elements.begin(), elements.end()));
      }
  }

  /// An array of 8 numbers in two parts, of which the first is these bytes.
  Bytes with_part(const std::vector<std::uint8_t>& bytes, std::uint32_t skipped) {
    return file_of([&](hid_t file) {
      const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
      const hsize_t four = 4, eight = 8, first = 0;
      H5Pset_chunk(how, 1, &four);
      H5Pset_shuffle(how);
      H5Pset_deflate(how, 6);
      put_dataset(file, "a", {eight}, how);
      const hid_t set = H5Dopen2(file, "a", H5P_DEFAULT);
      CHECK(H5Dwrite_chunk(set, H5P_DEFAULT, skipped, &first, bytes.size(), bytes.data()) >= 0);
      const std::vector<float> second(4, 1.5F);
      CHECK(H5Dwrite_chunk(set, H5P_DEFAULT, 3, &four, 16, second.data()) >= 0);
      H5Dclose(set);
      H5Pclose(how);
    });
  }

  TEST_CASE("HDF5: a damaged part is refused before the library takes its size on trust") {
    const std::vector<std::uint8_t> sixteen(16, 0);
    CHECK(values<float>(decode(with_part(sixteen, 3)).arrays.at(0)) ==
          std::vector<float>{0, 0, 0, 0, 1.5F, 1.5F, 1.5F, 1.5F});
    CHECK(refusal(with_part({1, 2, 3}, 3)) == "HDF5: a: damaged: a part has 3 bytes, expected 16");
    CHECK(contains(refusal(with_part(std::vector<std::uint8_t>(4000, 7), 3)),
                   "a part has 4000 bytes, expected 16"));
    CHECK(contains(refusal(with_part(sixteen, 0)),
                   "a compressed part does not become the 16 bytes that it has"));
    // What zlib makes of no bytes at all.
    CHECK(
        contains(refusal(with_part({0x78, 0x9c, 3, 0, 0, 0, 0, 1}, 0)), "does not become the 16"));
    CHECK(contains(refusal(with_part({0x78, 0x9c, 3, 0, 0, 0, 0, 1}, 2)),
                   "a part has 8 bytes, expected 16"));
  }

  TEST_CASE("HDF5: other filters, and types of elements, are refused by their names") {
    CHECK(refusal(file_of([](hid_t file) {
            const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
            const hsize_t four = 4;
            H5Pset_chunk(how, 1, &four);
            H5Pset_fletcher32(how);
            const std::vector<float> elements(4);
            put_dataset(file, "a", {4}, how, H5T_IEEE_F32LE, elements.data());
            H5Pclose(how);
          })) ==
          "HDF5: a: it is stored with the filter 'fletcher32' (3), of which gzip and shuffle are "
          "read: write the file without (h5repack -f NONE, or create_dataset without compression)");
    const auto of_type = [](hid_t type) {
      return refusal(file_of([&](hid_t file) { put_dataset(file, "a", {4}, H5P_DEFAULT, type); }));
    };
    CHECK(contains(of_type(H5T_STD_I8LE),
                   "HDF5: a: its elements are int8, expected numbers with a point"));
    CHECK(contains(of_type(H5T_STD_U8LE), "its elements are uint8"));
    CHECK(
        contains(of_type(H5T_NATIVE_LDOUBLE), "its elements are numbers with a point of 128 bits"));
    const hid_t complex = H5Tcreate(H5T_COMPOUND, 8);
    H5Tinsert(complex, "r", 0, H5T_IEEE_F32LE);
    H5Tinsert(complex, "i", 4, H5T_IEEE_F32LE);
    CHECK(contains(of_type(complex), "its elements are compound"));
    H5Tclose(complex);
    CHECK(contains(refusal(file_of([](hid_t file) {
                     const hid_t type = H5Tcreate(H5T_OPAQUE, 1), space = H5Screate(H5S_SCALAR);
                     put_dataset(file, "a", {4}, H5P_DEFAULT, type);
                     H5Aclose(H5Acreate_by_name(file, "a", "dtype", H5T_NATIVE_INT, space,
                                                H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
                     H5Sclose(space);
                     H5Tclose(type);
                   })),
                   "its elements are opaque, of 1 bytes (float8"));
  }

  TEST_CASE("HDF5: a group that contains itself, and a file of Keras 2, are refused") {
    CHECK(contains(refusal(file_of([](hid_t file) {
                     for (const char* const name : {"a", "b"})
                       H5Lcreate_hard(file, "/", file, name, H5P_DEFAULT, H5P_DEFAULT);
                   })),
                   "there are more groups than a model can have"));
    CHECK(contains(refusal(file_of([](hid_t file) {
                     const hid_t space = H5Screate(H5S_SCALAR);
                     H5Aclose(H5Acreate2(file, "layer_names", H5T_NATIVE_INT, space, H5P_DEFAULT,
                                         H5P_DEFAULT));
                     H5Sclose(space);
                   })),
                   "it is of Keras 2"));
  }
}

TEST_SUITE("HDF5 in Python [needs python]") {
  TEST_CASE("HDF5: h5py finds what was written, where Keras looks for it") {
    if (!has_python_modules("HDF5 in h5py", "h5py, numpy")) return;
    const TemporaryFolder folder;
    const std::string path = folder.path("ours.weights.h5");
    ls::write_file_atomically(
        path, ls::detail::hdf5_codec->encode(two_layers_arrays(), two_layers(), some_optimizer()));
    const auto finished = run_python(R"py(
import sys, h5py, numpy as np
f = h5py.File(sys.argv[1])
def same(place, dtype, values):
    found = f[place]
    assert found.dtype == dtype and np.array_equal(found[()], np.array(values, dtype)), (place, found[()])
same("layers/dense/vars/0", "<f4", [[1, 2, 3], [4, 5, -.5]])
same("layers/dense/vars/1", "<f4", [.25, 0, 1e-30])
same("layers/dropout/vars/0", "<i4", 0)
same("layers/dropout/vars/1", "<f8", .1)
same("optimizer/vars/0", "<i8", 5_000_000_000)
same("optimizer/vars/2", "<f4", [3, 4])
assert f["layers/dense/vars"].attrs["name"] == "dense", dict(f["layers/dense/vars"].attrs)
assert f["optimizer/vars"].attrs["name"] == "adam"
assert sorted(f) == ["layers", "optimizer", "vars"], sorted(f)
)py",
                                     {path});
    CHECK_MESSAGE(finished.exit_code == 0, finished.output);
  }
}

#else

TEST_CASE("HDF5: without a library there is no codec") {
  CHECK(lockstep::detail::hdf5_codec == nullptr);
}

#endif
