#include "lockstep/datasets/image_sets.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Bytes = std::vector<std::uint8_t>;

/// An image for each label: channel c of pixel p is p + 100 c + label, modulo 256.
Bytes images(const Bytes& labels) {
  Bytes bytes;
  for (const std::uint8_t label : labels) {
    bytes.push_back(label);
    for (unsigned channel = 0; channel < 3; ++channel)
      for (unsigned pixel = 0; pixel < 1024; ++pixel)
        bytes.push_back(static_cast<std::uint8_t>(pixel + 100 * channel + label));
  }
  return bytes;
}

std::string refusal(const TemporaryFolder& folder) {
  return message_of<ls::DataError>([&] { (void)ls::load_cifar10(folder.path()); });
}

}  // namespace

TEST_CASE("load_cifar10: two files") {
  const TemporaryFolder folder;
  folder.write("train.bin", images({3, 0, 9}));
  folder.write("test_batch.bin", images({1, 2}));
  const ls::ImageDataset cifar = ls::load_cifar10(folder.path());
  CHECK(cifar.train.images.shape() == std::vector<std::size_t>{3, 32, 32, 3});
  CHECK(cifar.test.images.shape() == std::vector<std::size_t>{2, 32, 32, 3});
  const auto labels = cifar.train.labels.values();
  CHECK(Bytes(labels.begin(), labels.end()) == Bytes{3, 0, 9});
  const auto pixel = cifar.train.images.row(2).subspan(3 * 700, 3);  // channels last
  CHECK(Bytes(pixel.begin(), pixel.end()) == Bytes{static_cast<std::uint8_t>(709),
                                                   static_cast<std::uint8_t>(809),
                                                   static_cast<std::uint8_t>(909)});
}

TEST_CASE("load_cifar10: six files, in their order") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i)
    folder.write("data_batch_" + std::to_string(i) + ".bin",
                 images({static_cast<std::uint8_t>(i)}));
  folder.write("test_batch.bin", images({7}));
  const ls::ImageDataset cifar = ls::load_cifar10(folder.path());
  const auto labels = cifar.train.labels.values();
  CHECK(Bytes(labels.begin(), labels.end()) == Bytes{1, 2, 3, 4, 5});
  CHECK(cifar.test.labels.values()[0] == 7);
}

TEST_CASE("load_cifar10: what is missing or damaged, and where") {
  const TemporaryFolder folder;
  CHECK(contains(refusal(folder), "there is no data_batch_1.bin, data_batch_2.bin"));
  folder.write("train.bin", images({1}));
  CHECK(contains(refusal(folder), "there is no test_batch.bin"));
  folder.write("test_batch.bin", Bytes{});
  CHECK(
      contains(refusal(folder),
               "test_batch.bin: is truncated: at offset 0 expected an image of 3073 bytes, got 0"));
  Bytes bytes = images({1, 2});
  bytes.pop_back();
  folder.write("test_batch.bin", bytes);
  CHECK(contains(refusal(folder),
                 "is truncated: at offset 3073 expected an image of 3073 bytes, got 3072"));
  bytes = images({1, 10});
  folder.write("test_batch.bin", bytes);
  CHECK(contains(refusal(folder), "is damaged: at offset 3073 expected a label of 0 to 9, got 10"));
}
