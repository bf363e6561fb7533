#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/idx.hpp"
#include "lockstep/datasets/mnist.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// The path of a file in one of its spellings; empty when there is none.
LOCKSTEP_INLINE std::string find_mnist_file(const std::string& directory, const char* stem,
                                            const char* suffix) {
  for (const char* separator : {"-", "."})
    for (const char* compression : {"", ".gz"}) {
      std::string path = concat({directory, "/", stem, separator, suffix, compression});
      if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
        std::fclose(file);
        return path;
      }
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
                directory, ", but cannot open ", missing}));

  ImageDataset dataset{detail::read_labelled_images(paths[0], paths[1]),
                       detail::read_labelled_images(paths[2], paths[3])};
  if (dataset.train.images.sample_shape() != dataset.test.images.sample_shape())
    throw DataError(concat({"load_mnist: the images differ in size: ", paths[0], " has ",
                            shape_text(dataset.train.images.shape()), ", ", paths[2], " has ",
                            shape_text(dataset.test.images.shape())}));
  return dataset;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
