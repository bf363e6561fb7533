#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/datasets/image_folder.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline bool is_image_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

LOCKSTEP_INLINE ImageFolderFiles find_images(const std::string& directory,
                                             const ImageFolderOptions& options) {
  namespace fs = std::filesystem;
  constexpr std::size_t most = 1 << 14;
  for (const std::size_t extent : {options.height, options.width})
    if (extent < 1 || extent > most)
      throw ConfigurationError(
          concat({"from_image_folder: height and width must be in [1, ", most, "], got ", extent}));
  if (options.channels != 1 && options.channels != 3)
    throw ConfigurationError(
        concat({"from_image_folder: channels must be 1 or 3, got ", options.channels}));

  std::error_code error;
  ImageFolderFiles files{.class_names = options.class_names, .paths = {}, .labels = {}};
  std::vector<std::string> found;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_directory()) found.push_back(entry->path().filename().string());
  if (error)
    throw DataError(
        concat({"from_image_folder: ", directory, " cannot be read: ", error.message()}));
  std::sort(found.begin(), found.end());
  if (files.class_names.empty()) files.class_names = found;

  for (std::size_t label = 0; label < files.class_names.size(); ++label) {
    const std::string& name = files.class_names[label];
    if (!std::binary_search(found.begin(), found.end(), name))
      throw DataError(concat({"from_image_folder: ", directory, " has no folder '", name, "'"}));
    std::vector<std::string> paths;
    fs::recursive_directory_iterator entry(fs::path(directory) / name, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error))
      if (entry->is_regular_file() && is_image_name(entry->path()))
        paths.push_back(entry->path().string());
    if (error)
      throw DataError(concat(
          {"from_image_folder: ", directory, "/", name, " cannot be read: ", error.message()}));
    std::sort(paths.begin(), paths.end());
    for (std::string& path : paths) files.paths.push_back(std::move(path));
    files.labels.resize(files.paths.size(), static_cast<std::uint32_t>(label));
  }
  if (files.paths.empty())
    throw DataError(concat({"from_image_folder: ", directory,
                            " has no images; expected a folder for each class with "
                            "files that end in .png, .jpg or .jpeg"}));
  return files;
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
