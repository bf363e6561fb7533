// Tar files of samples, as WebDataset has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/datasets/image_decoders.hpp"
#include "lockstep/datasets/image_folder.hpp"
#include "lockstep/datasets/mapped_file.hpp"
#include "lockstep/datasets/parsed_records.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A sample in a tar file: the files that have one name up to the first dot behind the last slash,
/// such as train/0001.jpg and train/0001.cls. Its views are those of the file's bytes.
class TarSample {
 public:
  struct Member {
    std::string extension;  ///< "jpg", or "seg.png": what stands behind that dot, in lower case
    std::span<const std::byte> bytes;
    std::uint64_t offset;  ///< of its header in the tar file
  };

  TarSample(std::string path, std::string key, std::vector<Member> members)
      : path_(std::move(path)), key_(std::move(key)), members_(std::move(members)) {}

  /// "train/0001"
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  [[nodiscard]] const std::vector<Member>& members() const noexcept { return members_; }
  [[nodiscard]] bool has(std::string_view extension) const noexcept;
  /// The bytes of a file. Throws DataError naming the tar file, the key, its offset and the
  /// extensions that there are, where there is none of that extension.
  [[nodiscard]] std::span<const std::byte> operator[](std::string_view extension) const;
  /// The same as text.
  [[nodiscard]] std::string_view text(std::string_view extension) const;
  /// A whole number in a text, as "cls" has it: blanks and line ends around it are left out. Throws
  /// DataError, too, when it is none.
  [[nodiscard]] std::int64_t number(std::string_view extension) const;
  /// "train-000.tar: sample 'train/0001' at byte 1536", for messages.
  [[nodiscard]] std::string name() const;

 private:
  std::string path_, key_;
  std::vector<Member> members_;
};

/// The samples of a tar file: ustar, pax or GNU, not compressed. Keeps the place of each (8 bytes),
/// and its key while the file is opened; the system reads what is asked for. Copies share the file,
/// which must not become shorter meanwhile. Any number of threads may read it.
class TarFile {
 public:
  /// Goes from header to header. Checks the checksum of each before anything else, and its size
  /// against that of the file. Folders, hidden files, and files without an extension are no
  /// samples. Throws DataError naming the file and the offset when it cannot be read, is damaged,
  /// cut off or compressed, has a link or a sparse file, or the files of a sample do not stand
  /// together.
  explicit TarFile(std::string path);

  [[nodiscard]] std::size_t size() const noexcept { return begins_->size(); }
  [[nodiscard]] TarSample operator[](std::size_t i) const;

 private:
  std::shared_ptr<const detail::MappedFile> file_;
  std::shared_ptr<const std::vector<std::uint64_t>> begins_;
};

/// Sample i is what `f(const TarSample& files, Sample<T>& sample)` makes of sample i: see
/// ParsedRecords.
template <class F>
class TarShard : public detail::ParsedRecords<TarFile, F> {
 public:
  TarShard(const std::string& path, F f, SampleSizes sizes)
      : detail::ParsedRecords<TarFile, F>(TarFile(path), std::move(f), sizes) {}
  void describe(PipelineDescription& description) const {
    description.add({"from_tar_shards(", this->description(), ")"});
  }
};

/// A pipeline of the samples in tar files, as WebDataset writes them and reads them: files whose
/// names differ in what stands behind the first dot are a sample. `f(const TarSample& files,
/// Sample<T>& sample)` writes sample.x and sample.y, which are zero before; T is float or double.
/// The files of a sample stand together in a tar file (`tar --sort=name`). With
/// AutoShardPolicy::file each worker reads its tar files, and never opens the others.
///
/// Samples are read where they lie, so that all of them are shuffled, also between tar files, with
/// no memory but for their numbers; a run that is resumed goes on at the exact sample. A tar file
/// has checksums of its headers, and none of the data.
/// @code
/// auto train = from_tar_shards({"train-000.tar", "train-001.tar"},
///                              [](const TarSample& files, auto& sample) {
///                                sample.y[0] = static_cast<float>(files.number("cls"));
///                                ...
///                              },
///                              {.sample_size = 512, .target_size = 1})
///                  .shuffle(1'000'000)
///                  .batch(64);
/// @endcode
/// Include <lockstep/datasets/tar_shards.hpp>.
/// Use: `from_tar_shards({"train-000.tar"}, [](const TarSample& files, auto& sample) {
/// sample.y[0] = static_cast<float>(files.number("cls")); }, {.sample_size = 4, .target_size =
/// 1})`. Keras: none (`webdataset.WebDataset`).
template <class F>
[[nodiscard]] auto from_tar_shards(std::vector<std::string> paths, F f, SampleSizes sizes) {
  return from_files(std::move(paths), [f = std::move(f), sizes](const std::string& path) {
    return TarShard<F>(path, f, sizes);
  });
}

/// Images in tar files.
struct TarImageOptions {
  std::size_t height = 256;  ///< of the samples: images are scaled to it
  std::size_t width = 256;
  std::size_t channels = 3;                                 ///< 3: red, green, blue; 1: grey
  std::vector<std::string> image = {"jpg", "jpeg", "png"};  ///< the extensions of images
  std::string label = "cls";  ///< that of the number of the class; empty: no targets
  ImageLimits limits = {};    ///< of lockstep's decoder
};

/// Sample i is the image of sample i, its target the number of its class.
template <class Decode>
class TarImages {
 public:
  TarImages(const std::string& path, TarImageOptions options, Decode decode)
      : file_(path), options_(std::move(options)), decode_(std::move(decode)) {}

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(file_.size());
  }
  [[nodiscard]] std::size_t sample_size() const noexcept {
    return options_.height * options_.width * options_.channels;
  }
  [[nodiscard]] std::size_t target_size() const noexcept { return options_.label.empty() ? 0 : 1; }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return {options_.height, options_.width, options_.channels};
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    const ImageFolderOptions size{
        .height = options_.height, .width = options_.width, .channels = options_.channels};
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const TarSample sample = file_[static_cast<std::size_t>(indices[i])];
      const auto found =
          std::find_if(options_.image.begin(), options_.image.end(),
                       [&](const std::string& extension) { return sample.has(extension); });
      const std::string& extension =
          found == options_.image.end() ? options_.image.front() : *found;
      detail::resize_image((*decode_)(sample[extension], sample.name()), size, pixels_);
      for (std::size_t f = 0; f < pixels_.size(); ++f) x(i, f) = static_cast<T>(pixels_[f]);
      if (!y.empty()) y(i, 0) = static_cast<T>(sample.number(options_.label));
    }
  }

 private:
  TarFile file_;
  TarImageOptions options_;
  detail::Assignable<Decode> decode_;
  std::vector<float> pixels_;
};

namespace detail {
/// Throws ConfigurationError for a size of 0, other channels than 1 and 3, and no extension.
void check_tar_images(const TarImageOptions& options);
}  // namespace detail

/// A pipeline of the images in tar files, with the numbers of their classes; pixels are numbers
/// from 0 to 255. Programs that link lockstep::images give two arguments, for PNG and JPEG. The
/// third one is another decoder, `DecodedImage decode(std::span<const std::byte> bytes, const
/// std::string& name)`, where `name` is the sample's.
/// Use: `from_tar_images({"train-000.tar"}, {.height = 64, .width = 64})`. Keras: none
/// (`webdataset.WebDataset(...).decode("rgb").to_tuple("jpg", "cls")`).
template <class Decode>
[[nodiscard]] auto from_tar_images(std::vector<std::string> paths, TarImageOptions options,
                                   Decode decode) {
  detail::check_tar_images(options);
  return from_files(std::move(paths), [options = std::move(options),
                                       decode = std::move(decode)](const std::string& path) {
    return TarImages<Decode>(path, options, decode);
  });
}

#if defined(LOCKSTEP_HAS_PNG) || defined(LOCKSTEP_HAS_JPEG)

/// The same, of PNG and JPEG.
[[nodiscard]] inline auto from_tar_images(std::vector<std::string> paths,
                                          TarImageOptions options = {}) {
  const DecodeImage decode{options.limits};
  return from_tar_images(std::move(paths), std::move(options), decode);
}

#else

/// Refuses, with a sentence, a program without a decoder.
template <class Char = char>
auto from_tar_images(const std::vector<std::string>&, const TarImageOptions& = {}) {
  static_assert(!sizeof(Char),
                "lockstep: from_tar_images(paths, options) decodes PNG and JPEG in programs that "
                "link the CMake target lockstep::images (or with pkg-config lockstep-images); "
                "others give a function: from_tar_images(paths, options, decode)");
}

#endif

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/tar_shards.ipp"
#endif
