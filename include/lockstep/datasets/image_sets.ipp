#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/idx.hpp"
#include "lockstep/datasets/image_sets.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI
