#include "lockstep/datasets/image_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/image_files.hpp"
#include "golden/images.hpp"
#include "lockstep/data/cache.hpp"
#include "support/captured_stderr.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

[[maybe_unused]] std::vector<std::uint8_t> from_hex(std::string_view digits) {
  std::vector<std::uint8_t> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
  return bytes;
}

/// A file of a byte b is an image of a pixel (b, 2 b, 0); an empty one is damaged.
struct OnePixel {
  ls::DecodedImage operator()(std::span<const std::byte> bytes, const std::string& path) const {
    if (bytes.empty()) throw ls::DataError("image " + path + ": empty");
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
    const ls::ImageFolderOptions options{.height = 1, .width = 2, .shuffle = false};
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
        animals.folder.path(),
        {.height = 1, .width = 1, .channels = 1, .class_names = {"cats"}, .shuffle = false},
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
    CHECK(contains(error(animals.folder.path(), {.extensions = {".ppm", ".pgm"}}),
                   "files that end in one of .ppm, .pgm; found 1 .jpeg, "));
    CHECK(contains(error(animals.folder.path(), {.extensions = {}}), "extensions is empty"));
    for (const char* extension : {"ppm", ".", ".PPM", ".tar.gz"})
      CHECK(error(animals.folder.path(), {.extensions = {extension}}) ==
            "from_image_folder: extensions are a dot and small letters, as \".png\", got '" +
                std::string(extension) + "'");
    CHECK(contains(error(animals.folder.path("none"), {}), "cannot be read: No such file"));
    CHECK(error(animals.folder.path(), {.validation_split = 1}) ==
          "from_image_folder: validation_split must be in [0, 1), got 1");
    CHECK(contains(error(animals.folder.path(), {.validation_split = 0.5}), "belong together"));
    CHECK(contains(error(animals.folder.path(), {.subset = ls::ImageSubset::training}),
                   "belong together"));
    CHECK(contains(error(animals.folder.path(),
                         {.validation_split = 0.1, .subset = ls::ImageSubset::validation}),
                   "a validation_split of 0.1 of 4 images leaves none for validation"));
  }
  TEST_CASE("names with a dot are no classes and no images; what is left out is counted once") {
    const Animals animals;
    for (const char* name : {".git/objects", ".ipynb_checkpoints", "cats/.cache", "cats/7.png"})
      std::filesystem::create_directories(animals.folder.path(name));
    animals.folder.write(".git/objects/6.png", {6});
    animals.folder.write("cats/.cache/6.png", {6});
    animals.folder.write("cats/._1.png", {6});
    animals.folder.write("ants/5.jfif", {5});
    animals.folder.write("ants/6.JPE", {6});
    for (const char* name :
         {"ants/7.bmp", "ants/8.BMP", "ants/9.gif", "cats/9.webp", "cats/README"})
      animals.folder.write(name, {7});
    const CapturedStderr log;
    const ls::ImageFolder<OnePixel> images(animals.folder.path(),
                                           {.height = 1, .width = 1, .shuffle = false}, OnePixel{});
    CHECK(images.class_names() == std::vector<std::string>{"ants", "cats"});
    CHECK(element_of(ls::from_source(images)) == Indices{3, 4, 5, 6, 1, 2});
    CHECK(element_of(ls::from_source(images), 3) == Indices{0, 0, 0, 0, 1, 1});
    CHECK(log.text() == "lockstep: from_image_folder: " + animals.folder.path() +
                            ": takes 6 images of 2 classes, and leaves out: 2 .bmp, 1 .gif, 1 "
                            ".txt, 1 .webp, 1 beside the folders of classes, 4 hidden, 1 without "
                            "an extension\n");
  }
  TEST_CASE("another decoder may have other extensions") {
    const Animals animals;
    animals.folder.write("ants/7.ppm", {7});
    animals.folder.write("cats/8.PPM", {8});
    const ls::ImageFolder<OnePixel> images(
        animals.folder.path(),
        {.height = 1, .width = 1, .shuffle = false, .extensions = {".ppm", ".txt"}}, OnePixel{});
    CHECK(element_of(ls::from_source(images)) == Indices{7, 8, 9});
  }
  TEST_CASE("the order is drawn; the parts for training and validation are all, without overlap") {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b"}) std::filesystem::create_directories(folder.path(name));
    for (std::uint8_t i = 0; i < 20; ++i)
      folder.write((i < 10 ? "a/" : "b/") + std::to_string(i) + ".png", {i});
    const auto values = [&](ls::ImageFolderOptions options, std::size_t element = 0) {
      options.height = options.width = 1;
      return element_of(ls::from_image_folder(folder.path(), options, OnePixel{}), element);
    };
    Indices all(20);
    std::iota(all.begin(), all.end(), 0);
    CHECK(values({.shuffle = false}) == all);
    const Indices drawn = values({});
    CHECK(drawn != all);
    CHECK(std::is_permutation(drawn.begin(), drawn.end(), all.begin(), all.end()));
    CHECK(values({}) == drawn);
    CHECK(values({.seed = 1}) != drawn);
    const Indices labels = values({}, 3);
    for (std::size_t i = 0; i < 20; ++i) CHECK(labels[i] == (drawn[i] < 10 ? 0 : 1));
    const auto first = labels.begin();
    CHECK(std::set<std::int64_t>(first, first + 8).size() == 2);  // take(8) has both classes

    for (const bool shuffle : {false, true}) {
      const auto part = [&](ls::ImageSubset subset) {
        return values({.shuffle = shuffle, .validation_split = 0.33, .subset = subset});
      };
      Indices parts = part(ls::ImageSubset::training);
      CHECK(parts.size() == 14);  // of Keras: int(0.33 * 20) are for validation, the last ones
      const Indices validation = part(ls::ImageSubset::validation);
      parts.insert(parts.end(), validation.begin(), validation.end());
      CHECK(parts == (shuffle ? drawn : all));
    }
  }
  TEST_CASE("a bad image is an error, or left out and named") {
    const Animals animals;
    animals.folder.write("ants/5.png", {});
    ls::ImageFolderOptions options{.height = 1, .width = 1, .shuffle = false};
    const auto bad = ls::from_image_folder(animals.folder.path(), options, OnePixel{});
    CHECK(contains(message_of<ls::Error>([&] { (void)element_of(bad); }), "ants/5.png: empty"));
    options.on_bad_image = ls::OnBadImage::skip;
    const CapturedStderr log;
    const auto good = ls::from_image_folder(animals.folder.path(), options, OnePixel{});
    CHECK(contains(log.text(),
                   "lockstep: warning: from_image_folder: 1 of 5 images are left out: "
                   "image " +
                       animals.folder.path() + "/ants/5.png: empty\n"));
    CHECK(element_of(good) == Indices{3, 4, 1, 2});
    CHECK(element_of(good, 3) == Indices{0, 0, 1, 1});
    for (const char* name : {"ants/3.jpeg", "ants/4.png", "cats/1.png", "cats/sub/2.JPG"})
      animals.folder.write(name, {});
    CHECK(contains(message_of<ls::Error>([&] {
                     (void)ls::from_image_folder(animals.folder.path(), options, OnePixel{});
                   }),
                   "5 of 5 images are left out: "));
  }
  TEST_CASE("the memory of an image is known before it is taken") {
    const auto refusal = [](std::uint64_t height, std::uint64_t width, std::uint64_t more,
                            ls::ImageLimits limits = {}) {
      return message_of<ls::DataError>(
          [&] { (void)ls::detail::blank_image("a", height, width, more, limits); });
    };
    CHECK(refusal(1 << 14, 1 << 14, 0) ==
          "image a: its 16384 x 16384 pixels take 805306368 bytes to decode, and "
          "ImageLimits::memory is 536870912: make the image smaller, or raise the limit");
    CHECK(contains(refusal(10, 10, 1, {.memory = 300}), "take 301 bytes"));
    CHECK(ls::detail::blank_image("a", 10, 10, 0, {.memory = 300}).rgb.size() == 300);
    CHECK(contains(refusal(1ULL << 40, 1ULL << 40, 0), "take over 1844674407370955161"));
    CHECK(contains(refusal(0, 1, 0), "expected at least one pixel, the header says 0 x 1"));
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
                   "it is neither PNG nor JPEG"));
    CHECK(contains(message_of<ls::DataError>([&] { (void)decoded("47494638396101"); }),
                   "image a.png: it is neither PNG nor JPEG"));
    CHECK(contains(message_of<ls::DataError>([&] { (void)decoded("47494638396101"); }),
                   "(libpng, libjpeg); it is a GIF image"));

    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.path("only"));
    folder.write("only/a.png", from_hex(golden_images::png));
    const ls::ImageFolderOptions small{.limits = {.memory = 35}};
    CHECK(contains(message_of<ls::Error>([&] {
                     (void)row_batches(ls::from_image_folder(folder.path(), small).batch(1));
                   }),
                   "take 132 bytes to decode, and ImageLimits::memory is 35"));
    const auto images = ls::from_image_folder(folder.path(), {.height = 5, .width = 7});
    Row row = row_batches(images.batch(1))[0][0];
    CHECK(row.back() == 0);
    row.pop_back();
    CHECK(largest_difference(row, golden_images::larger) < 1e-3);
  }
  TEST_CASE("PNG of every kind: the numbers of Pillow; nothing of colours is applied") {
    for (const golden_image_files::Case& file : golden_image_files::pngs) {
      CAPTURE(file.name);
      const std::vector<std::uint8_t> bytes = from_hex(file.file);
      const auto rgb = [](const std::vector<std::uint8_t>& png) {
        return ls::DecodeImage{}(std::as_bytes(std::span(png)), "a.png").rgb;
      };
      CHECK(rgb(bytes) == from_hex(file.rgb));
      for (const golden_image_files::Chunk& chunk : golden_image_files::chunks) {
        CAPTURE(chunk.name);
        for (const bool damaged : {false, true}) {
          std::vector<std::uint8_t> more = from_hex(chunk.bytes), with_chunk = bytes;
          if (damaged) more.back() ^= 1;  // its checksum: no matter for what is not read
          with_chunk.insert(with_chunk.begin() + 33, more.begin(), more.end());
          CHECK(rgb(with_chunk) == from_hex(file.rgb));
        }
      }
    }
  }
  TEST_CASE("PNG: every truncation and every changed byte is decoded or refused") {
    for (const golden_image_files::Case& file : golden_image_files::pngs) {
      CAPTURE(file.name);
      const std::vector<std::uint8_t> bytes = from_hex(file.file);
      const auto decode = [](const std::vector<std::uint8_t>& png) {
        (void)ls::DecodeImage{.limits = {.memory = 1 << 20}}(std::as_bytes(std::span(png)), "a");
      };
      for (std::size_t size = 4; size + 12 < bytes.size(); ++size)
        CHECK_THROWS_AS(decode({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
                        ls::DataError);
      for (std::size_t at = 4; at < bytes.size(); ++at) {
        std::vector<std::uint8_t> changed = bytes;
        changed[at] ^= 0x41;
        try {
          decode(changed);
        } catch (const ls::DataError&) {
        }
      }
    }
  }
  TEST_CASE("PNG: a size that its bytes cannot have") {
    std::vector<std::uint8_t> bytes = from_hex(golden_images::png);
    bytes[16 + 2] = 0x40;  // 16,388 pixels wide
    bytes[20 + 2] = 0x40;
    for (const auto& [at, byte] : std::initializer_list<std::pair<std::size_t, std::uint8_t>>{
             {29, 0xa9}, {30, 0xd5}, {31, 0x55}, {32, 0x07}})
      bytes[at] = byte;  // the header's checksum
    CHECK(contains(message_of<ls::DataError>(
                       [&] { (void)ls::DecodeImage{}(std::as_bytes(std::span(bytes)), "a.png"); }),
                   "bytes cannot hold 16387 x 16388 pixels of 24 bits"));
  }
#endif
#if defined(LOCKSTEP_HAS_JPEG)
  TEST_CASE("JPEG of every kind: within 2 of Pillow's numbers") {
    for (const golden_image_files::Case& file : golden_image_files::jpegs) {
      CAPTURE(file.name);
      const std::vector<std::uint8_t> bytes = from_hex(file.file), expected = from_hex(file.rgb);
      const ls::DecodedImage image = ls::DecodeImage{}(std::as_bytes(std::span(bytes)), "a.jpg");
      REQUIRE(image.rgb.size() == expected.size());
      int largest = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        largest = std::max(largest, std::abs(int{image.rgb[i]} - int{expected[i]}));
      CHECK(largest <= 2);
    }
  }
  TEST_CASE("JPEG: the limits of scans and memory") {
    const golden_image_files::Case& progressive = std::end(golden_image_files::jpegs)[-1];
    REQUIRE(progressive.name == "progressive");
    const std::vector<std::uint8_t> bytes = from_hex(progressive.file);
    const auto refusal = [&](ls::ImageLimits limits) {
      return message_of<ls::DataError>(
          [&] { (void)ls::DecodeImage{limits}(std::as_bytes(std::span(bytes)), "a.jpg"); });
    };
    CHECK(refusal({.jpeg_scans = 10}) == "NO EXCEPTION");
    CHECK(refusal({.jpeg_scans = 9}) ==
          "image a.jpg: it has more scans than ImageLimits::jpeg_scans, 9; got the header of scan "
          "10: save it anew, or raise the limit");
    // 192 of the pixels, 384 of the coefficients, 2048 of rows.
    CHECK(refusal({.memory = 2624}) == "NO EXCEPTION");
    CHECK(contains(refusal({.memory = 2623}), "take 2624 bytes to decode"));
  }
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
          "image a.jpg: damaged JPEG, or one of a kind that libjpeg does not decode: "));
  }
#endif
}
