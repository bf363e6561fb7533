#include "lockstep/datasets/image_sets.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#if defined(LOCKSTEP_HAS_ZLIB) && LOCKSTEP_HAS_ZLIB
#include <zlib.h>
#endif

#include "data/support.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Magic number and extents.
Bytes header(std::uint8_t type, const std::vector<std::uint32_t>& extents) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents)
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  return bytes;
}

const Bytes images = header(8, {2, 2, 3}) + Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255};

#if defined(LOCKSTEP_HAS_ZLIB) && LOCKSTEP_HAS_ZLIB
Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&stream, static_cast<uLong>(bytes.size())) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
#endif

/// The message with which read_idx refuses a file of these bytes. It must come at once, and it must
/// name the path.
template <class U = std::uint8_t>
std::string refusal(const Bytes& bytes, const std::string& name = "file") {
  const TemporaryFolder folder;
  const std::string path = folder.write(name, bytes);
  const auto start = std::chrono::steady_clock::now();
  const std::string message = message_of<ls::DataError>([&] { (void)ls::read_idx<U>(path); });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  CHECK(contains(message, path));
  return message;
}

}  // namespace

TEST_SUITE("read_idx") {
  TEST_CASE("plain") {
    const TemporaryFolder folder;
    const ls::Tensor<std::uint8_t> read = ls::read_idx(folder.write("images", images));
    CHECK(read.shape() == std::vector<std::size_t>{2, 2, 3});
    CHECK(read.row(1)[0] == 6);
    CHECK(read.row(1)[5] == 255);
  }

  TEST_CASE("no rows") {
    const TemporaryFolder folder;
    CHECK(ls::read_idx(folder.write("none", header(8, {0, 28, 28}))).rows() == 0);
  }

  TEST_CASE("other types of elements") {
    const TemporaryFolder folder;
    const auto read = [&](std::uint8_t type, const Bytes& elements, auto zero) {
      const auto count = static_cast<std::uint32_t>(elements.size() / sizeof zero);
      return ls::read_idx<decltype(zero)>(folder.write("typed", header(type, {count}) + elements));
    };
    CHECK(read(0x09, {0xFF}, std::int8_t{}).values()[0] == -1);
    CHECK(read(0x0B, {0x01, 0x02, 0xFF, 0xFE}, std::int16_t{}).values()[0] == 0x0102);
    CHECK(read(0x0B, {0x01, 0x02, 0xFF, 0xFE}, std::int16_t{}).values()[1] == -2);
    CHECK(read(0x0C, {0x01, 0x02, 0x03, 0x04}, std::int32_t{}).values()[0] == 0x01020304);
    CHECK(read(0x0D, {0x3F, 0x80, 0, 0}, float{}).values()[0] == 1.0f);
    CHECK(read(0x0E, {0xC0, 0, 0, 0, 0, 0, 0, 0}, double{}).values()[0] == -2.0);
  }

  TEST_CASE("a file that is missing or no file") {
    const TemporaryFolder folder;
    const std::string missing = folder.path("missing");
    const std::string message = message_of<ls::DataError>([&] { (void)ls::read_idx(missing); });
    CHECK(contains(message, missing));
    CHECK(contains(message, "No such file"));
    CHECK_THROWS_AS((void)ls::read_idx(folder.path(".")), ls::DataError);
  }

  TEST_CASE("empty") {
    CHECK(contains(refusal({}), "is empty"));
    CHECK(contains(refusal({}, "file.gz"), "an empty file"));
  }

  TEST_CASE("truncated anywhere") {
    for (std::size_t size = 1; size < images.size(); ++size) {
      const std::string message =
          refusal(Bytes(images.begin(), images.begin() + static_cast<std::ptrdiff_t>(size)));
      CHECK(contains(message, "truncated"));
      CHECK(contains(message, std::to_string(size)));
    }
    const std::string last = refusal(Bytes(images.begin(), images.end() - 1));
    CHECK(contains(last, "(2, 2, 3)"));
    CHECK(contains(last, "expected 28 bytes, got 27"));
  }

  TEST_CASE("bytes after the end") {
    const std::string message = refusal(images + Bytes{1, 2, 3});
    CHECK(contains(message, "too long"));
    CHECK(contains(message, "expected 28 bytes, got 31"));
  }

  TEST_CASE("wrong magic") {
    CHECK(contains(refusal({'P', 'K', 3, 4, 0, 0, 0, 0}), "got 50 4b"));
    CHECK(contains(refusal({0, 1, 8, 1, 0, 0, 0, 0}),
                   "expected it to begin with the bytes 00 00, got 00 01"));
    CHECK(contains(refusal({0, 0, 8, 0, 0, 0, 0, 0}), "no dimensions"));
  }

  TEST_CASE("another type of elements") {
    const std::string message = refusal(header(0x0D, {1}) + Bytes{0, 0, 0, 0});
    CHECK(contains(message, "0x08 (unsigned byte)"));
    CHECK(contains(message, "0x0d (float)"));
    CHECK(contains(refusal(header(0x42, {1}) + Bytes{0}), "0x42 (unknown)"));
    CHECK(contains(refusal<float>(images),
                   "expected type code 0x0d (float), got 0x08 (unsigned byte)"));
  }

  TEST_CASE("huge counts take no memory") {
    const std::uint32_t most = 0xFFFFFFFF;
    for (const Bytes& begin :
         {header(8, {most}), header(8, {most, most}), header(8, {most, most, most}),
          header(8, std::vector<std::uint32_t>(255, most)), header(8, {60000, 28, 28})}) {
      const std::string message = refusal(begin + Bytes(100));
      CHECK(contains(message, "truncated"));
    }
    CHECK(
        contains(refusal<double>(header(0x0E, {most, most, 2}) + Bytes(8)), "elements of 8 bytes"));
  }

  TEST_CASE("samples of no elements") {
    CHECK(contains(refusal(header(8, {3, 0, 28})), "dimension of 0"));
  }

  TEST_CASE("not gzip, though the name says so") {
    CHECK(contains(refusal(images, "file.gz"),
                   "expected it to begin with the bytes 1f 8b, got 00 00"));
    CHECK(contains(refusal({0x1f}, "file.gz"), "got 1f"));
  }

#if defined(LOCKSTEP_HAS_ZLIB) && LOCKSTEP_HAS_ZLIB
  TEST_CASE("gzip, whatever the name") {
    const TemporaryFolder folder;
    for (const std::string name : {"images.gz", "images"})
      CHECK(ls::read_idx(folder.write(name, gzip(images))).row(1)[5] == 255);
    Bytes large = header(8, {1000, 100});
    for (std::uint32_t i = 0; i < 100'000; ++i)
      large.push_back(static_cast<std::uint8_t>(i * i >> 7));
    const auto read = ls::read_idx(folder.write("large.gz", gzip(large)));
    CHECK(std::equal(read.values().begin(), read.values().end(), large.begin() + 12, large.end()));
  }

  TEST_CASE("gzip in several members") {
    const TemporaryFolder folder;
    const Bytes front(images.begin(), images.begin() + 7);
    const Bytes back(images.begin() + 7, images.end());
    CHECK(ls::read_idx(folder.write("two.gz", gzip(front) + gzip(back))).row(1)[5] == 255);
  }

  TEST_CASE("gzip truncated anywhere") {
    const Bytes whole = gzip(images);
    for (std::size_t size = 2; size < whole.size(); ++size)
      CHECK(
          contains(refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)),
                           "file.gz"),
                   "truncated"));
  }

  TEST_CASE("gzip damaged anywhere: an error, or the right contents") {
    // A byte of the gzip header (time, system) does not matter.
    const Bytes whole = gzip(images);
    for (std::size_t at = 2; at < whole.size(); ++at) {
      Bytes damaged = whole;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 0x55);
      const TemporaryFolder folder;
      const std::string path = folder.write("file.gz", damaged);
      try {
        const auto read = ls::read_idx(path);
        CHECK(read.row(1)[5] == 255);
      } catch (const ls::DataError& error) {
        CHECK(contains(error.what(), path));
      }
    }
    Bytes checksum = whole;
    checksum[checksum.size() - 8] ^= 1;
    CHECK(contains(refusal(checksum, "file.gz"), "damaged gzip data"));
  }

  TEST_CASE("gzip with bytes after its end") {
    CHECK(contains(refusal(gzip(images) + Bytes{0, 0}, "file.gz"),
                   "after the end of the gzip stream"));
  }

  TEST_CASE("gzip of a malformed file") {
    CHECK(contains(refusal(gzip({}), "file.gz"), "is empty"));
    CHECK(contains(refusal(gzip({0, 0, 8}), "file.gz"), "truncated"));
    CHECK(contains(refusal(gzip({1, 2, 3, 4, 5, 6, 7, 8}), "file.gz"), "got 01 02"));
    CHECK(contains(refusal(gzip(images + Bytes{1}), "file.gz"), "expected 28 bytes, got more"));
    CHECK(contains(refusal(gzip(Bytes(images.begin(), images.end() - 1)), "file.gz"),
                   "expected 28 bytes, got 27"));
    CHECK(contains(refusal(gzip(header(8, {0xFFFFFFFF, 0xFFFF})), "file.gz"), "can hold at most"));
  }

  TEST_CASE(
      "a small gzip file that would become a large one is stopped at the size in its header") {
    const Bytes bomb = gzip(header(8, {10}) + Bytes(std::size_t{50} << 20));
    CHECK(contains(refusal(bomb, "file.gz"), "expected 18 bytes, got more"));
  }
#else
  TEST_CASE("without zlib, gzip files are refused with the remedy") {
    const std::string message = refusal({0x1f, 0x8b, 8, 0, 0, 0, 0, 0}, "file.gz");
    CHECK(contains(message, "built without zlib"));
    CHECK(contains(message, "gunzip"));
    CHECK(contains(message, "zlib1g-dev"));
  }
#endif
}
