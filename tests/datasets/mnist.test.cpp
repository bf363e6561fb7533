#include "lockstep/datasets/image_sets.hpp"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/support.hpp"
#include "support/mnist_dir.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes images(std::uint8_t n, std::uint8_t side = 2) {
  Bytes bytes{0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, side, 0, 0, 0, side};
  for (int i = 0; i < n * side * side; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  return bytes;
}

Bytes labels(std::uint8_t n) {
  Bytes bytes{0, 0, 8, 1, 0, 0, 0, n};
  for (std::uint8_t i = 0; i < n; ++i) bytes.push_back(i);
  return bytes;
}

void write_all(const TemporaryFolder& folder) {
  folder.write("train-images-idx3-ubyte", images(3));
  folder.write("train-labels-idx1-ubyte", labels(3));
  folder.write("t10k-images-idx3-ubyte", images(2));
  folder.write("t10k-labels-idx1-ubyte", labels(2));
}

std::string refusal(const TemporaryFolder& folder) {
  return message_of<ls::DataError>([&] { (void)ls::load_mnist(folder.path()); });
}

}  // namespace

TEST_SUITE("load_mnist") {
  TEST_CASE("the four files") {
    const TemporaryFolder folder;
    write_all(folder);
    const ls::ImageDataset mnist = ls::load_mnist(folder.path());
    CHECK(mnist.train.images.shape() == std::vector<std::size_t>{3, 2, 2});
    CHECK(mnist.train.labels.values()[2] == 2);
    CHECK(mnist.test.images.rows() == 2);
    CHECK(mnist.test.labels.rows() == 2);
    CHECK(ls::load_mnist(folder.path() + "/").train.images.rows() == 3);
  }

  TEST_CASE("a folder with the name of a file is none") {
    const TemporaryFolder folder;
    write_all(folder);
    for (const char* name : {"train-images", "train-labels", "t10k-images", "t10k-labels"}) {
      const std::string suffix =
          std::string_view(name).ends_with("images") ? "idx3-ubyte" : "idx1-ubyte";
      const std::string path = folder.path(std::string(name) + "-" + suffix);
      std::filesystem::rename(path, folder.path(std::string(name) + "." + suffix));
      std::filesystem::create_directories(path);
    }
    CHECK(ls::load_mnist(folder.path()).train.images.rows() == 3);
  }

  TEST_CASE("in the other spelling") {
    const TemporaryFolder folder;
    folder.write("train-images.idx3-ubyte", images(3));
    folder.write("train-labels.idx1-ubyte", labels(3));
    folder.write("t10k-images.idx3-ubyte", images(2));
    folder.write("t10k-labels.idx1-ubyte", labels(2));
    CHECK(ls::load_mnist(folder.path()).train.images.rows() == 3);
  }

  TEST_CASE("missing files are named, and only they") {
    const TemporaryFolder folder;
    folder.write("train-images-idx3-ubyte", images(3));
    folder.write("t10k-images-idx3-ubyte", images(2));
    const std::string message = refusal(folder);
    CHECK(contains(message, folder.path()));
    CHECK(contains(message, "train-labels-idx1-ubyte, t10k-labels-idx1-ubyte"));
    CHECK_FALSE(contains(message, "images-idx3"));
    CHECK(contains(message_of<ls::DataError>([&] { (void)ls::load_mnist(folder.path("none")); }),
                   folder.path("none")));
  }

  TEST_CASE("counts that differ") {
    const TemporaryFolder folder;
    write_all(folder);
    folder.write("t10k-labels-idx1-ubyte", labels(5));
    const std::string message = refusal(folder);
    CHECK(contains(message, "t10k-images-idx3-ubyte has 2 images"));
    CHECK(contains(message, "t10k-labels-idx1-ubyte has 5 labels"));
  }

  TEST_CASE("files in the wrong place") {
    const TemporaryFolder folder;
    write_all(folder);
    folder.write("train-labels-idx1-ubyte", images(3));
    CHECK(contains(refusal(folder), "expected labels, (n), got (3, 2, 2)"));
    write_all(folder);
    folder.write("t10k-images-idx3-ubyte", labels(2));
    CHECK(contains(refusal(folder), "expected images, (n, height, width), got (2)"));
    write_all(folder);
    folder.write("t10k-images-idx3-ubyte", images(2, 3));
    CHECK(contains(refusal(folder), "differ in size"));
  }

  TEST_CASE("a malformed file") {
    const TemporaryFolder folder;
    write_all(folder);
    folder.write("train-images-idx3-ubyte", {});
    CHECK(contains(refusal(folder), "train-images-idx3-ubyte: is empty"));
  }
}

TEST_SUITE("load_mnist [needs mnist]") {
  TEST_CASE("MNIST itself") {
    const auto directory = lockstep_test::mnist_dir();
    if (!directory) return lockstep_test::skip_without_mnist("MNIST itself");
    const ls::ImageDataset mnist = ls::load_mnist(directory->string());
    for (const ls::LabelledImages* part : {&mnist.train, &mnist.test}) {
      CHECK(part->images.sample_shape() == std::vector<std::size_t>{28, 28});
      CHECK(part->images.rows() >= 1000);
      std::array<int, 10> count{};
      for (const std::uint8_t label : part->labels.values()) {
        REQUIRE(label < 10);
        ++count[label];
      }
      for (const int n : count) CHECK(n > 50);
    }
  }
}
