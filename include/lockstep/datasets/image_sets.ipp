#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <system_error>

#include "lockstep/core/file_format.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/image_sets.hpp"

#if defined(LOCKSTEP_HAS_ZLIB) && LOCKSTEP_HAS_ZLIB
#include <zlib.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

[[noreturn]] LOCKSTEP_INLINE void idx_error(const std::string& path,
                                            std::initializer_list<TextPiece> problem) {
  throw DataError(concat({"IDX file ", path, ": ", concat(problem)}));
}

LOCKSTEP_INLINE std::string hex_bytes(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    if (!text.empty()) text += ' ';
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

LOCKSTEP_INLINE std::string idx_type_name(std::uint8_t code) {
  const std::string text = "0x" + hex_bytes({&code, 1});
  switch (code) {
    case 0x08:
      return text + " (unsigned byte)";
    case 0x09:
      return text + " (signed byte)";
    case 0x0B:
      return text + " (16-bit integer)";
    case 0x0C:
      return text + " (32-bit integer)";
    case 0x0D:
      return text + " (float)";
    case 0x0E:
      return text + " (double)";
    default:
      return text + " (unknown)";
  }
}

/// An open file of known size.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
    if (!file_) fail("cannot be opened");
    if (std::fseek(file_.get(), 0, SEEK_END) != 0) fail("cannot be read");
    const long end = std::ftell(file_.get());
    if (end < 0 || std::fseek(file_.get(), 0, SEEK_SET) != 0) fail("cannot be read");
    size_ = static_cast<std::uint64_t>(end);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Returns fewer bytes at the end only.
  std::size_t read(std::uint8_t* out, std::size_t count) {
    const std::size_t got = std::fread(out, 1, count, file_.get());
    if (got < count && std::ferror(file_.get()) != 0) fail("cannot be read");
    return got;
  }

  void rewind() {
    if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail("cannot be read");
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  [[noreturn]] void fail(const char* what) const {
    idx_error(path_, {what, ": ", std::strerror(errno)});
  }

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t size_ = 0;
};

/// Reads header and elements from either kind of file. `read` fills as much of a buffer as there
/// is; `most` is how many bytes there can be at all; `exact` says that there are that many.
template <class Read>
IdxContents parse_idx(const std::string& path, std::uint8_t type_code, std::size_t element_size,
                      std::uint64_t most, bool exact, Read read) {
  std::array<std::uint8_t, 4> magic;
  std::size_t got = read(magic.data(), magic.size());
  if (got == 0) idx_error(path, {"is empty; expected a header of at least 8 bytes"});
  if (got < magic.size())
    idx_error(path, {"is truncated: expected a header of at least 8 bytes, got ", got});
  if (magic[0] != 0 || magic[1] != 0)
    idx_error(path, {"is not an IDX file: expected it to begin with the bytes 00 00, got ",
                     hex_bytes({magic.data(), 2})});
  if (magic[2] != type_code)
    idx_error(path, {"has another type of elements: expected type code ", idx_type_name(type_code),
                     ", got ", idx_type_name(magic[2])});
  const std::size_t rank = magic[3];
  if (rank == 0) idx_error(path, {"has no dimensions: expected at least 1, got 0"});

  std::array<std::uint8_t, 4 * 255> raw;
  got = read(raw.data(), 4 * rank);
  if (got < 4 * rank)
    idx_error(path, {"is truncated: expected a header of ", 4 + 4 * rank, " bytes for ", rank,
                     " dimensions, got ", 4 + got});

  IdxContents contents;
  std::uint64_t size = element_size;
  bool too_large = false;
  for (std::size_t i = 0; i < rank; ++i) {
    std::uint64_t extent = 0;
    for (std::size_t b = 0; b < 4; ++b) extent = extent << 8 | raw[4 * i + b];
    contents.shape.push_back(static_cast<std::size_t>(extent));
    if (extent == 0 && i > 0)
      idx_error(path, {"has a dimension of 0 in its samples: the header says ",
                       shape_text(contents.shape)});
    too_large =
        too_large || (extent != 0 && size > std::numeric_limits<std::uint64_t>::max() / extent);
    size = too_large ? size : size * extent;
  }
  const std::uint64_t header = 4 + 4 * rank;
  // A product of extents that overflows is more than any file has.
  const std::string expected =
      concat({"the header says ", shape_text(contents.shape), " elements of ", element_size,
              " bytes, expected ", too_large ? "over " : "", header + size, " bytes, got "});
  if (too_large || size > most || header > most - size)
    idx_error(path, {"is truncated: ", expected,
                     exact ? "" : "a compressed file that can hold at most ", most});
  if (exact && header + size < most) idx_error(path, {"is too long: ", expected, most});

  contents.bytes.resize(static_cast<std::size_t>(size));
  got = read(contents.bytes.data(), contents.bytes.size());
  if (got < size) idx_error(path, {"is truncated: ", expected, header + got});
  std::uint8_t extra = 0;
  if (read(&extra, 1) != 0) idx_error(path, {"is too long: ", expected, "more"});
  return contents;
}

#if defined(LOCKSTEP_HAS_ZLIB) && LOCKSTEP_HAS_ZLIB

/// Decompresses a gzip file, checks its checksums, and accepts nothing behind it.
class GzipReader {
 public:
  explicit GzipReader(IdxFile& file) : file_(file) {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  ~GzipReader() { inflateEnd(&stream_); }

  std::size_t read(std::uint8_t* out, std::size_t count) {
    std::size_t done = 0;
    while (done < count && !ended_) {
      if (stream_.avail_in == 0) refill();
      const auto room = static_cast<uInt>(std::min(count - done, std::size_t{1} << 30));
      stream_.next_out = out + done;
      stream_.avail_out = room;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END)
        next_member();
      else if (result == Z_BUF_ERROR && exhausted_)
        idx_error(file_.path(),
                  {"is truncated: the compressed data end before the end of the gzip stream"});
      else if (result != Z_OK && result != Z_BUF_ERROR)
        idx_error(file_.path(),
                  {"has damaged gzip data: ", stream_.msg ? stream_.msg : "unknown error"});
    }
    return done;
  }

 private:
  void refill() {
    stream_.next_in = chunk_.data();
    stream_.avail_in = static_cast<uInt>(file_.read(chunk_.data(), chunk_.size()));
    exhausted_ = stream_.avail_in == 0;
  }

  /// A gzip file may be several, one after the other.
  void next_member() {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0) {
      ended_ = true;
      return;
    }
    if (*stream_.next_in != 0x1f)
      idx_error(file_.path(),
                {"has bytes after the end of the gzip stream: expected the end of the file, got ",
                 hex_bytes({stream_.next_in, 1})});
    inflateReset(&stream_);
  }

  IdxFile& file_;
  z_stream stream_{};
  bool ended_ = false;
  bool exhausted_ = false;
  std::array<std::uint8_t, 1 << 15> chunk_;
};

LOCKSTEP_INLINE IdxContents read_idx_gzip(IdxFile& file, std::uint8_t type_code,
                                          std::size_t element_size) {
  // Deflate makes at most 1032 bytes of one: a longer claim of the header is false, whatever the
  // rest.
  const std::uint64_t most = file.size() > std::numeric_limits<std::uint64_t>::max() / 1032
                                 ? std::numeric_limits<std::uint64_t>::max()
                                 : file.size() * 1032;
  const auto reader = std::make_unique<GzipReader>(file);
  return parse_idx(file.path(), type_code, element_size, most, false,
                   [&](std::uint8_t* out, std::size_t count) { return reader->read(out, count); });
}

#else

LOCKSTEP_INLINE IdxContents read_idx_gzip(IdxFile& file, std::uint8_t, std::size_t) {
  idx_error(file.path(), {"is compressed with gzip, and this program was built without zlib. "
                          "Either decompress it (gunzip), or install zlib (Debian, Ubuntu: apt-get "
                          "install zlib1g-dev), define LOCKSTEP_HAS_ZLIB=1 and link zlib, which "
                          "lockstep's CMake target does when it finds zlib"});
}

#endif

LOCKSTEP_INLINE IdxContents read_idx_bytes(const std::string& path, std::uint8_t type_code,
                                           std::size_t element_size) {
  IdxFile file(path);
  std::array<std::uint8_t, 512> first{};
  const std::size_t got = file.read(first.data(), first.size());
  file.rewind();
  const std::string format = known_format({reinterpret_cast<const char*>(first.data()), got});
  if (got >= 2 && first[0] == 0x1f && first[1] == 0x8b)
    return read_idx_gzip(file, type_code, element_size);
  if (path.ends_with(".gz"))
    idx_error(path, {"is not a gzip file: expected it to begin with the bytes 1f 8b, got ",
                     got == 0 ? std::string("an empty file")
                              : hex_bytes({first.data(), std::min<std::size_t>(got, 2)})});
  // (What begins with 00 is of no known kind.)
  if (got > 1 && !format.empty())
    idx_error(path, {"is not an IDX file: expected it to begin with the bytes 00 00, got ",
                     hex_bytes({first.data(), 2}), "; it is ", format});
  return parse_idx(path, type_code, element_size, file.size(), true,
                   [&](std::uint8_t* out, std::size_t count) { return file.read(out, count); });
}

/// The path of a file in one of its spellings; empty when there is none.
LOCKSTEP_INLINE std::string find_mnist_file(const std::string& directory, const char* stem,
                                            const char* suffix) {
  for (const char* separator : {"-", "."})
    for (const char* compression : {"", ".gz"}) {
      std::string path = concat({directory, "/", stem, separator, suffix, compression});
      // (Some archives have folders of these names, and in them the files.)
      std::error_code error;
      if (std::filesystem::is_regular_file(path, error)) return path;
    }
  return {};
}

LOCKSTEP_INLINE LabelledImages read_labelled_images(const std::string& images_path,
                                                    const std::string& labels_path) {
  LabelledImages read{read_idx(images_path), read_idx(labels_path)};
  if (read.images.sample_shape().size() != 2)
    throw DataError(concat({"IDX file ", images_path, ": expected images, (n, height, width), got ",
                            shape_text(read.images.shape())}));
  if (!read.labels.sample_shape().empty())
    throw DataError(concat({"IDX file ", labels_path, ": expected labels, (n), got ",
                            shape_text(read.labels.shape())}));
  if (read.images.rows() != read.labels.rows())
    throw DataError(concat({"IDX files with different counts: ", images_path, " has ",
                            read.images.rows(), " images, ", labels_path, " has ",
                            read.labels.rows(), " labels; use files of the same dataset"}));
  return read;
}

}  // namespace detail

LOCKSTEP_INLINE ImageDataset load_mnist(const std::string& directory) {
  constexpr std::array<std::pair<const char*, const char*>, 4> files{
      {{"train-images", "idx3-ubyte"},
       {"train-labels", "idx1-ubyte"},
       {"t10k-images", "idx3-ubyte"},
       {"t10k-labels", "idx1-ubyte"}}};
  std::array<std::string, 4> paths;
  std::string missing;
  for (std::size_t i = 0; i < files.size(); ++i) {
    paths[i] = detail::find_mnist_file(directory, files[i].first, files[i].second);
    if (paths[i].empty())
      missing += concat({missing.empty() ? "" : ", ", files[i].first, "-", files[i].second});
  }
  if (!missing.empty())
    throw DataError(
        concat({"load_mnist: expected MNIST's four IDX files (plain or with .gz) in the directory ",
                directory, ", but there is no file ", missing}));

  ImageDataset dataset{detail::read_labelled_images(paths[0], paths[1]),
                       detail::read_labelled_images(paths[2], paths[3])};
  if (dataset.train.images.sample_shape() != dataset.test.images.sample_shape())
    throw DataError(concat({"load_mnist: the images differ in size: ", paths[0], " has ",
                            shape_text(dataset.train.images.shape()), ", ", paths[2], " has ",
                            shape_text(dataset.test.images.shape())}));
  return dataset;
}

namespace detail {

/// The images of CIFAR-10 files, one after the other.
class Cifar10Reader {
 public:
  /// Adds the images of a file; false when there is none.
  bool add(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return false;
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    if (!file) fail(path, {"cannot be opened: ", std::strerror(errno)});
    std::array<std::uint8_t, record_size> record;
    for (std::uint64_t offset = 0;; offset += record_size) {
      const std::size_t got = std::fread(record.data(), 1, record_size, file.get());
      if (std::ferror(file.get()) != 0)
        fail(path, {"cannot be read at offset ", offset, ": ", std::strerror(errno)});
      if (got == 0 && offset > 0) return true;
      if (got < record_size)
        fail(path, {"is truncated: at offset ", offset, " expected an image of ", record_size,
                    " bytes, got ", got,
                    offset == 0 && got > 0
                        ? format_note({reinterpret_cast<const char*>(record.data()), got})
                        : ""});
      if (record[0] > 9)
        fail(path,
             {"is damaged: at offset ", offset, " expected a label of 0 to 9, got ", int{record[0]},
              offset == 0 ? format_note({reinterpret_cast<const char*>(record.data()), got}) : ""});
      labels_.push_back(record[0]);
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        for (std::size_t channel = 0; channel < 3; ++channel)
          images_.push_back(record[1 + channel * pixels + pixel]);
    }
  }

  [[nodiscard]] LabelledImages take() {
    const std::size_t count = labels_.size();
    return {Tensor<std::uint8_t>(std::move(images_), {count, 32, 32, 3}),
            Tensor<std::uint8_t>(std::move(labels_))};
  }

 private:
  static constexpr std::size_t pixels = 1024;
  static constexpr std::size_t record_size = 1 + 3 * pixels;

  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  [[noreturn]] static void fail(const std::string& path, std::initializer_list<TextPiece> problem) {
    throw DataError(concat({"CIFAR-10 file ", path, ": ", concat(problem)}));
  }

  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
};

LOCKSTEP_INLINE LabelledImages read_cifar10(const std::string& directory,
                                            std::span<const char* const> names) {
  Cifar10Reader reader;
  std::string missing;
  for (const char* const name : names)
    if (!reader.add(concat({directory, "/", name})))
      missing += concat({missing.empty() ? "" : ", ", name});
  if (!missing.empty())
    throw DataError(
        concat({"load_cifar10: expected data_batch_1.bin to data_batch_5.bin, or train.bin, and "
                "test_batch.bin in the directory ",
                directory, ", but there is no ", missing}));
  return reader.take();
}

}  // namespace detail

LOCKSTEP_INLINE ImageDataset load_cifar10(const std::string& directory) {
  constexpr std::array batches{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                               "data_batch_4.bin", "data_batch_5.bin"};
  constexpr std::array test{"test_batch.bin"};
  ImageDataset dataset;
  detail::Cifar10Reader one;
  dataset.train =
      one.add(directory + "/train.bin") ? one.take() : detail::read_cifar10(directory, batches);
  dataset.test = detail::read_cifar10(directory, test);
  return dataset;
}

}}  // namespace lockstep
