// Folders of images, a class each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/datasets/image_decoders.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The part of a folder that is read, where `validation_split` divides it.
enum class ImageSubset : std::uint8_t { all, training, validation };

/// What becomes of an image that cannot be read or decoded.
enum class OnBadImage : std::uint8_t {
  error,  ///< reading it throws DataError
  skip,   ///< it is no sample: all are decoded once before, and the log names those left out
};

/// The names and defaults of Keras's image_dataset_from_directory, where it has them.
struct ImageFolderOptions {
  std::size_t height = 256;  ///< of the samples: images are scaled to it
  std::size_t width = 256;
  std::size_t channels = 3;  ///< 3: red, green, blue; 1: grey
  std::vector<std::string> class_names =
      {};                  ///< the folders in the order of their labels; empty: by name
  bool shuffle = true;     ///< the order of the samples is drawn; false: class by class, by name
  std::uint64_t seed = 0;  ///< of that order, which is the same on all machines
  /// The part in [0, 1) that is for validation: the last samples of the order above, rounded down.
  double validation_split = 0;
  ImageSubset subset = ImageSubset::all;  ///< with a validation_split: the one or the other
  OnBadImage on_bad_image = OnBadImage::error;
  ImageLimits limits = {};  ///< of lockstep's decoder
  /// Of the files that are images, in small letters; another decoder may have others: {".ppm"}.
  std::vector<std::string> extensions = {".png", ".jpg", ".jpeg", ".jpe", ".jfif"};
};

namespace detail {

/// What lies in a folder of classes.
struct ImageFolderFiles {
  std::vector<std::string> class_names;
  std::vector<std::string> paths;
  std::vector<std::uint32_t> labels;
};

/// All files in folders of classes, and below, with one of the extensions, in the order and the
/// part that the options say. Folders and files whose names begin with a dot are left out. A line
/// of the log counts what is, by kind. Throws ConfigurationError for bad options, DataError when
/// there are none.
[[nodiscard]] ImageFolderFiles find_images(const std::string& directory,
                                           const ImageFolderOptions& options);

/// The same without the images for which `decode` throws DataError, with a line of the log. Throws
/// DataError when none is left.
[[nodiscard]] ImageFolderFiles without_bad_images(
    ImageFolderFiles files, const std::function<void(const std::string& path)>& decode);

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
        files_(std::make_shared<const detail::ImageFolderFiles>(find())) {}

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
      detail::resize_image(decoded(files_->paths[number]), options_, pixels_);
      for (std::size_t f = 0; f < pixels_.size(); ++f) x(i, f) = static_cast<T>(pixels_[f]);
      if (!y.empty()) y(i, 0) = static_cast<T>(files_->labels[number]);
    }
  }

 private:
  [[nodiscard]] DecodedImage decoded(const std::string& path) {
    const detail::MappedFile file("from_image_folder", path);
    return (*decode_)(file.bytes(), file.path());
  }
  [[nodiscard]] detail::ImageFolderFiles find() {
    detail::ImageFolderFiles files = detail::find_images(directory_, options_);
    if (options_.on_bad_image == OnBadImage::error) return files;
    return detail::without_bad_images(std::move(files),
                                      [this](const std::string& path) { (void)decoded(path); });
  }

  std::string directory_;
  ImageFolderOptions options_;
  detail::Assignable<Decode> decode_;
  std::shared_ptr<const detail::ImageFolderFiles> files_;
  std::vector<float> pixels_;
};

/// A pipeline of the images in a folder that has a folder for each class (Keras's
/// image_dataset_from_directory, before batch). Programs that link lockstep::images give two
/// arguments, for PNG and JPEG. The third one is another decoder: `DecodedImage
/// decode(std::span<const std::byte> bytes, const std::string& path)` makes an image of a file's
/// bytes, and throws DataError where it cannot. The images for training and those for validation:
/// @code
/// auto train = from_image_folder("pets", {.validation_split = 0.2,
///                                         .subset = ImageSubset::training});
/// auto held_out = from_image_folder("pets", {.validation_split = 0.2,
///                                            .subset = ImageSubset::validation});
/// @endcode
/// Use: `from_image_folder("pets", {.height = 64, .width = 64, .seed = 1, .validation_split = 0.2,
/// .subset = ImageSubset::training})`. Keras: `image_dataset_from_directory`.
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
  const DecodeImage decode{options.limits};
  return from_image_folder(std::move(directory), std::move(options), decode);
}

#else

/// Refuses, with a sentence, a program without a decoder.
template <class Char = char>
auto from_image_folder(const std::string&, const ImageFolderOptions& = {}) {
  static_assert(!sizeof(Char),
                "lockstep: from_image_folder(directory, options) decodes PNG and JPEG in programs "
                "that link the CMake target lockstep::images (or with pkg-config lockstep-images); "
                "others give a function: from_image_folder(directory, options, decode)");
}

#endif

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/image_folder.ipp"
#endif
