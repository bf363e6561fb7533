#include "lockstep/datasets/image_folder.hpp"

#include <doctest/doctest.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/images.hpp"
#include "lockstep/data/cache.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<std::uint8_t> from_hex(std::string_view digits) {
  std::vector<std::uint8_t> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
  return bytes;
}

/// A file of a byte b is an image of a pixel (b, 2 b, 0).
struct OnePixel {
  ls::DecodedImage operator()(std::span<const std::byte> bytes, const std::string&) const {
    const auto value = static_cast<std::uint8_t>(bytes[0]);
    return {1, 1, {value, static_cast<std::uint8_t>(2 * value), 0}};
  }
};

/// Folders cats (1.png, sub/2.JPG, no_image.txt) and ants (3.jpeg, 4.png).
struct Animals {
  TemporaryFolder folder;
  Animals() {
    for (const char* name : {"cats/sub", "ants"})
      std::filesystem::create_directories(folder.path(name));
    folder.write("cats/1.png", {1});
    folder.write("cats/sub/2.JPG", {2});
    folder.write("cats/no_image.txt", {9});
    folder.write("ants/3.jpeg", {3});
    folder.write("ants/4.png", {4});
    folder.write("5.png", {5});
  }
};

template <std::size_t N>
ls::DecodedImage image_of(const double (&values)[N], std::size_t height, std::size_t width) {
  ls::DecodedImage image{height, width};
  for (const double value : values) image.rgb.push_back(static_cast<std::uint8_t>(value));
  return image;
}

template <class Values, std::size_t N>
double largest_difference(const Values& values, const double (&expected)[N]) {
  REQUIRE(values.size() == N);
  double largest = 0;
  for (std::size_t i = 0; i < N; ++i)
    largest = std::max(largest, std::abs(static_cast<double>(values[i]) - expected[i]));
  return largest;
}

}  // namespace

TEST_SUITE("image folder") {
  TEST_CASE("images class by class, labels by the folders' names") {
    const Animals animals;
    const ls::ImageFolderOptions options{.height = 1, .width = 2};
    const auto images = ls::from_image_folder(animals.folder.path(), options, OnePixel{});
    CHECK(row_batches(images.batch(4)) == RowBatches{{{3, 6, 0, 3, 6, 0, 0},
                                                      {4, 8, 0, 4, 8, 0, 0},
                                                      {1, 2, 0, 1, 2, 0, 1},
                                                      {2, 4, 0, 2, 4, 0, 1}}});
    CHECK(images.sample_shape() == std::vector<std::size_t>{1, 2, 3});
    CHECK(contains(images.sample_name(3), "cats/sub/2.JPG"));
    CHECK(images.fingerprint().samples == 4);
    check_stage(images.cache().shuffle(4).repeat(3).batch(3));

    const ls::ImageFolder<OnePixel> chosen(
        animals.folder.path(), {.height = 1, .width = 1, .channels = 1, .class_names = {"cats"}},
        OnePixel{});
    CHECK(chosen.class_names() == std::vector<std::string>{"cats"});
    CHECK(row_batches(ls::from_source(chosen).batch(2)) ==
          RowBatches{{{1, 0}, {3, 0}}});  // 0.299 b + 0.587 * 2 b
    CHECK(chosen.fingerprint().checksum != images.fingerprint().checksum);
  }
  TEST_CASE("scaling as tf.image.resize") {
    std::vector<float> out;
    const ls::DecodedImage image = image_of(golden_images::rgb, 3, 4);
    ls::detail::resize_image(image, {.height = 5, .width = 7}, out);
    CHECK(largest_difference(out, golden_images::larger) < 1e-3);
    ls::detail::resize_image(image, {.height = 2, .width = 2}, out);
    CHECK(largest_difference(out, golden_images::smaller) < 1e-3);
    ls::detail::resize_image(image, {.height = 3, .width = 4}, out);
    CHECK(largest_difference(out, golden_images::rgb) == 0);
  }
  TEST_CASE("bad arguments and folders") {
    const Animals animals;
    const auto error = [&](const std::string& path, const ls::ImageFolderOptions& options) {
      return message_of<ls::Error>([&] { (void)ls::from_image_folder(path, options, OnePixel{}); });
    };
    CHECK(error(animals.folder.path(), {.height = 0}) ==
          "from_image_folder: height and width must be in [1, 16384], got 0");
    CHECK(error(animals.folder.path(), {.channels = 2}) ==
          "from_image_folder: channels must be 1 or 3, got 2");
    CHECK(
        contains(error(animals.folder.path(), {.class_names = {"dogs"}}), "has no folder 'dogs'"));
    CHECK(contains(error(animals.folder.path("cats/sub"), {}),
                   "has no images; expected a folder for each class"));
    CHECK(contains(error(animals.folder.path("none"), {}), "cannot be read: No such file"));
    CHECK_THROWS_AS((void)ls::detail::blank_image("a", std::uint64_t{1} << 20, 1 << 9),
                    ls::DataError);
    CHECK_THROWS_AS((void)ls::detail::blank_image("a", 0, 1), ls::DataError);
  }

#if defined(LOCKSTEP_HAS_PNG)
  TEST_CASE("PNG: exact; transparency is left out, grey becomes three channels") {
    const auto decoded = [](std::string_view digits) {
      const std::vector<std::uint8_t> bytes = from_hex(digits);
      return ls::DecodeImage{}(std::as_bytes(std::span(bytes)), "a.png");
    };
    const ls::DecodedImage image = decoded(golden_images::png);
    CHECK(image.height == 3);
    CHECK(image.width == 4);
    CHECK(largest_difference(image.rgb, golden_images::rgb) == 0);
    CHECK(largest_difference(decoded(golden_images::png_with_alpha).rgb, golden_images::rgb) == 0);
    const ls::DecodedImage grey = decoded(golden_images::png_of_grey);
    for (std::size_t i = 0; i < 12; ++i)
      for (std::size_t k = 0; k < 3; ++k) CHECK(grey.rgb[3 * i + k] == golden_images::grey[i]);
    CHECK(contains(
        message_of<ls::DataError>([&] { (void)decoded(golden_images::png.substr(0, 100)); }),
        "image a.png: damaged PNG"));
    CHECK(contains(message_of<ls::DataError>([&] { (void)decoded("00112233"); }),
                   "is neither PNG nor JPEG"));

    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.path("only"));
    folder.write("only/a.png", from_hex(golden_images::png));
    const auto images = ls::from_image_folder(folder.path(), {.height = 5, .width = 7});
    Row row = row_batches(images.batch(1))[0][0];
    CHECK(row.back() == 0);
    row.pop_back();
    CHECK(largest_difference(row, golden_images::larger) < 1e-3);
  }
#endif
#if defined(LOCKSTEP_HAS_JPEG)
  TEST_CASE("JPEG: near what was encoded; a damaged file is refused") {
    const std::vector<std::uint8_t> bytes = from_hex(golden_images::jpeg);
    const auto all = std::as_bytes(std::span(bytes));
    const ls::DecodedImage image = ls::DecodeImage{}(all, "a.jpg");
    CHECK(image.height == 8);
    CHECK(image.width == 16);
    CHECK(largest_difference(image.rgb, golden_images::smooth) <= 3);
    for (const std::size_t size : {std::size_t{4}, std::size_t{100}, bytes.size() - 20})
      CHECK(contains(
          message_of<ls::DataError>([&] { (void)ls::DecodeImage{}(all.first(size), "a.jpg"); }),
          "image a.jpg: damaged JPEG: "));
  }
#endif
}
