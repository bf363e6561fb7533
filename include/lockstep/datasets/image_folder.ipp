#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/datasets/image_folder.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// ".jpg" of "a.JPG".
LOCKSTEP_INLINE std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension;
}

LOCKSTEP_INLINE void check_image_options(const ImageFolderOptions& options) {
  constexpr std::size_t most = 1 << 14;
  for (const std::size_t extent : {options.height, options.width})
    if (extent < 1 || extent > most)
      throw ConfigurationError(
          concat({"from_image_folder: height and width must be in [1, ", most, "], got ", extent}));
  if (options.channels != 1 && options.channels != 3)
    throw ConfigurationError(
        concat({"from_image_folder: channels must be 1 or 3, got ", options.channels}));
  if (options.extensions.empty())
    throw ConfigurationError(
        "from_image_folder: extensions is empty: say how images end, as in {\".png\"}");
  for (const std::string& extension : options.extensions)
    if (extension.size() < 2 || extension[0] != '.' ||
        lower_extension("x" + extension) != extension)
      throw ConfigurationError(
          concat({"from_image_folder: extensions are a dot and small letters, as \".png\", got ",
                  in_quotes(extension)}));
  if (!(options.validation_split >= 0 && options.validation_split < 1))
    throw ConfigurationError(concat(
        {"from_image_folder: validation_split must be in [0, 1), got ", options.validation_split}));
  if ((options.validation_split > 0) != (options.subset != ImageSubset::all))
    throw ConfigurationError(
        "from_image_folder: validation_split and subset belong together: set both, subset to "
        "ImageSubset::training or ImageSubset::validation, or neither");
}

/// Looks for images, and counts what else is there.
class ImageSearch {
 public:
  ImageSearch(const std::string& directory, const std::vector<std::string>& extensions)
      : directory_(directory), extensions_(extensions) {}

  /// The names of the folders in the directory, in order.
  [[nodiscard]] std::vector<std::string> classes() {
    std::vector<std::string> names;
    std::error_code error, ignored;
    for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
         entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (name.starts_with('.'))
        ++others_["hidden"];
      else if (entry->is_directory(ignored))
        names.push_back(std::move(name));
      else
        ++others_["beside the folders of classes"];
    }
    check(error, directory_);
    std::sort(names.begin(), names.end());
    return names;
  }

  /// The images in and below the folder of a class, in order.
  [[nodiscard]] std::vector<std::string> images(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(directory_) / name;
    std::vector<std::string> paths;
    std::error_code error, ignored;
    std::filesystem::recursive_directory_iterator entry(folder, error);
    for (const decltype(entry) end; !error && entry != end; entry.increment(error)) {
      const std::string extension = lower_extension(entry->path());
      if (entry->path().filename().string().starts_with('.')) {
        ++others_["hidden"];
        entry.disable_recursion_pending();
      } else if (entry->is_directory(ignored)) {
        continue;
      } else if (entry->is_regular_file(ignored) &&
                 std::find(extensions_.begin(), extensions_.end(), extension) !=
                     extensions_.end()) {
        paths.push_back(entry->path().string());
      } else {
        ++others_[extension.empty() ? "without an extension" : printable(extension, 20)];
      }
    }
    check(error, folder.string());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  /// "1 .bmp, 2 hidden", or empty.
  [[nodiscard]] std::string others() const {
    std::string text;
    for (const auto& [kind, count] : others_)
      text += concat({text.empty() ? "" : ", ", count, " ", kind});
    return text;
  }

 private:
  static void check(const std::error_code& error, const std::string& folder) {
    if (error)
      throw DataError(
          concat({"from_image_folder: ", folder, " cannot be read: ", error.message()}));
  }

  const std::string& directory_;
  const std::vector<std::string>& extensions_;
  std::map<std::string, std::size_t> others_;
};

/// Takes the order and the part that the options say.
LOCKSTEP_INLINE void choose_images(ImageFolderFiles& files, const ImageFolderOptions& options) {
  const std::size_t all = files.paths.size();
  if (options.shuffle) {
    RandomStream random{RandomKey(options.seed)};
    for (std::size_t i = all; i > 1; --i) {
      const auto other = static_cast<std::size_t>(random.below(i));
      std::swap(files.paths[i - 1], files.paths[other]);
      std::swap(files.labels[i - 1], files.labels[other]);
    }
  }
  if (options.subset == ImageSubset::all) return;
  const auto validation =
      static_cast<std::size_t>(options.validation_split * static_cast<double>(all));
  const bool is_training = options.subset == ImageSubset::training;
  const auto keep = [&](auto& list) {
    const auto border = list.end() - static_cast<std::ptrdiff_t>(validation);
    is_training ? list.erase(border, list.end()) : list.erase(list.begin(), border);
  };
  keep(files.paths);
  keep(files.labels);
  if (files.paths.empty())
    throw DataError(
        concat({"from_image_folder: a validation_split of ", options.validation_split, " of ", all,
                " images leaves none for ", is_training ? "training" : "validation"}));
}

LOCKSTEP_INLINE ImageFolderFiles find_images(const std::string& directory,
                                             const ImageFolderOptions& options) {
  check_image_options(options);
  ImageSearch search(directory, options.extensions);
  const std::vector<std::string> found = search.classes();
  ImageFolderFiles files{.class_names = options.class_names, .paths = {}, .labels = {}};
  if (files.class_names.empty()) files.class_names = found;

  for (std::size_t label = 0; label < files.class_names.size(); ++label) {
    const std::string& name = files.class_names[label];
    if (!std::binary_search(found.begin(), found.end(), name))
      throw DataError(
          concat({"from_image_folder: ", directory, " has no folder ", in_quotes(name)}));
    for (std::string& path : search.images(name)) files.paths.push_back(std::move(path));
    files.labels.resize(files.paths.size(), static_cast<std::uint32_t>(label));
  }
  const std::string others = search.others();
  if (files.paths.empty()) {
    std::string expected;
    for (const std::string& extension : options.extensions)
      expected += concat({expected.empty() ? "" : ", ", extension});
    throw DataError(concat({"from_image_folder: ", directory,
                            " has no images; expected a folder for each class with files that end "
                            "in one of ",
                            expected, "; found ", others.empty() ? "nothing" : others}));
  }
  // (The other part of the same folder has the same to say.)
  if (!others.empty() && options.subset != ImageSubset::validation)
    log_line(
        concat({"from_image_folder: ", directory, ": takes ", files.paths.size(), " images of ",
                files.class_names.size(), " classes, and leaves out: ", others}));
  choose_images(files, options);
  return files;
}

LOCKSTEP_INLINE ImageFolderFiles without_bad_images(
    ImageFolderFiles files, const std::function<void(const std::string& path)>& decode) {
  constexpr std::size_t most_named = 10;
  ImageFolderFiles good{.class_names = std::move(files.class_names), .paths = {}, .labels = {}};
  const std::size_t all = files.paths.size();
  std::string reasons;
  for (std::size_t i = 0; i < all; ++i) {
    try {
      decode(files.paths[i]);
    } catch (const DataError& error) {
      const std::size_t bad = i - good.paths.size();
      if (bad < most_named) reasons += concat({bad > 0 ? "; " : "", error.what()});
      continue;
    }
    good.paths.push_back(std::move(files.paths[i]));
    good.labels.push_back(files.labels[i]);
  }
  const std::size_t bad = all - good.paths.size();
  if (bad == 0) return good;
  if (bad > most_named) reasons += concat({"; and ", bad - most_named, " more"});
  const std::string text =
      concat({"from_image_folder: ", bad, " of ", all, " images are left out: ", reasons});
  if (bad == all) throw DataError(text);
  log_warning(text);
  return good;
}

LOCKSTEP_INLINE std::uint32_t checksum_of(const ImageFolderFiles& files,
                                          const std::string& directory) {
  std::uint32_t checksum = crc32c(std::as_bytes(std::span(files.labels)));
  for (const std::string& path : files.paths) {
    std::string_view name = std::string_view(path).substr(directory.size());
    name.remove_prefix(std::min(name.find_first_not_of('/'), name.size()));  // "data" and "data/"
    checksum = crc32c(std::as_bytes(std::span(name)), checksum);
  }
  return checksum;
}

LOCKSTEP_INLINE void resize_image(const DecodedImage& image, const ImageFolderOptions& options,
                                  std::vector<float>& out) {
  struct Place {
    std::size_t before, after;
    float weight;  ///< of the one after
  };
  const auto place = [](std::size_t i, std::size_t to, std::size_t from) {
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f, low = std::floor(at);
    const auto bounded = [&](float number) {
      return static_cast<std::size_t>(std::clamp(number, 0.0f, static_cast<float>(from - 1)));
    };
    return Place{bounded(low), bounded(low + 1), at - low};
  };
  const std::size_t channels = options.channels;
  const auto value = [&](std::size_t row, std::size_t column, std::size_t channel) {
    const std::uint8_t* const pixel = image.rgb.data() + (row * image.width + column) * 3;
    if (channels == 3) return static_cast<float>(pixel[channel]);
    const int grey =
        (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;  // ITU-R BT.601
    return static_cast<float>(grey);
  };
  std::vector<Place> columns;
  for (std::size_t j = 0; j < options.width; ++j)
    columns.push_back(place(j, options.width, image.width));
  out.resize(options.height * options.width * channels);
  float* to = out.data();
  for (std::size_t i = 0; i < options.height; ++i) {
    const Place row = place(i, options.height, image.height);
    for (const Place& column : columns)
      for (std::size_t k = 0; k < channels; ++k) {
        const float a = value(row.before, column.before, k), b = value(row.before, column.after, k);
        const float c = value(row.after, column.before, k), d = value(row.after, column.after, k);
        const float upper = a + (b - a) * column.weight, lower = c + (d - c) * column.weight;
        *to++ = upper + (lower - upper) * row.weight;
      }
  }
}

}}}  // namespace lockstep::detail
