// Folders of images, a class each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/datasets/image_decoders.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct ImageFolderOptions {
  std::size_t height = 256;  ///< of the samples: images are scaled to it
  std::size_t width = 256;
  std::size_t channels = 3;  ///< 3: red, green, blue; 1: grey
  std::vector<std::string> class_names =
      {};  ///< the folders in the order of their labels; empty: by name
};

namespace detail {

/// What lies in a folder of classes.
struct ImageFolderFiles {
  std::vector<std::string> class_names;
  std::vector<std::string> paths;
  std::vector<std::uint32_t> labels;
};

/// All files in folders of classes, and below, that end in .png, .jpg or .jpeg, class by class and
/// by name. Throws ConfigurationError for bad options, DataError when there are none.
[[nodiscard]] ImageFolderFiles find_images(const std::string& directory,
                                           const ImageFolderOptions& options);

/// A checksum of the names below the directory, and of the labels.
[[nodiscard]] std::uint32_t checksum_of(const ImageFolderFiles& files,
                                        const std::string& directory);

/// Scales by bilinear interpolation between the middles of pixels, without smoothing, as
/// tf.image.resize; to height x width x channels numbers from 0 to 255.
void resize_image(const DecodedImage& image, const ImageFolderOptions& options,
                  std::vector<float>& out);

}  // namespace detail

/// Sample i is image i, its target the number of its class. Images are decoded when they are read,
/// by `decode(bytes, path)`, a DecodedImage; put `cache()` behind it where they fit in memory, and
/// `prefetch()` behind `batch`. Copies share the list of files.
template <class Decode>
class ImageFolder {
 public:
  ImageFolder(std::string directory, ImageFolderOptions options, Decode decode)
      : directory_(std::move(directory)),
        options_(std::move(options)),
        decode_(std::move(decode)),
        files_(std::make_shared<const detail::ImageFolderFiles>(
            detail::find_images(directory_, options_))) {}

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(files_->paths.size());
  }
  [[nodiscard]] std::size_t sample_size() const noexcept {
    return options_.height * options_.width * options_.channels;
  }
  [[nodiscard]] std::size_t target_size() const noexcept { return 1; }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return {options_.height, options_.width, options_.channels};
  }
  /// By label.
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept {
    return files_->class_names;
  }
  void describe(PipelineDescription& description) const {
    description.add({"from_image_folder(", options_.height, " x ", options_.width, " x ",
                     options_.channels, ")"});
  }
  [[nodiscard]] SourceFingerprint fingerprint() const {
    return {
        .samples = size(), .checked = size(), .checksum = detail::checksum_of(*files_, directory_)};
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return files_->paths[static_cast<std::size_t>(i)];
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto number = static_cast<std::size_t>(indices[i]);
      const detail::MappedFile file("from_image_folder", files_->paths[number]);
      detail::resize_image((*decode_)(file.bytes(), file.path()), options_, pixels_);
      for (std::size_t f = 0; f < pixels_.size(); ++f) x(i, f) = static_cast<T>(pixels_[f]);
      if (!y.empty()) y(i, 0) = static_cast<T>(files_->labels[number]);
    }
  }

 private:
  std::string directory_;
  ImageFolderOptions options_;
  detail::Assignable<Decode> decode_;
  std::shared_ptr<const detail::ImageFolderFiles> files_;
  std::vector<float> pixels_;
};

/// A pipeline of the images in a folder that has a folder for each class (Keras's
/// image_dataset_from_directory, before batch), decoded by a function of the caller's.
template <class Decode>
[[nodiscard]] auto from_image_folder(std::string directory, ImageFolderOptions options,
                                     Decode decode) {
  return from_source(
      ImageFolder<Decode>(std::move(directory), std::move(options), std::move(decode)));
}

#if defined(LOCKSTEP_HAS_PNG) || defined(LOCKSTEP_HAS_JPEG)

/// The same, of PNG and JPEG.
[[nodiscard]] inline auto from_image_folder(std::string directory,
                                            ImageFolderOptions options = {}) {
  return from_image_folder(std::move(directory), std::move(options), DecodeImage{});
}

#else

/// Refuses, with a sentence, a program without a decoder.
template <class Options = ImageFolderOptions>
auto from_image_folder(const std::string&, const Options& = {}) {
  static_assert(!sizeof(Options),
                "lockstep: from_image_folder(directory, options) decodes PNG and JPEG in programs "
                "that link the CMake "
                "target lockstep::images; others give a function: from_image_folder(directory, "
                "options, decode)");
}

#endif

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/image_folder.ipp"
#endif
