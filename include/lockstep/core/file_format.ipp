#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/file_format.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::string known_format(std::string_view head) {
  using namespace std::string_view_literals;
  struct Format {
    std::size_t at;
    std::string_view magic, words;
    bool is_text = false;
  };
  static constexpr Format formats[] = {
      {0, "version https://git-lfs.github.com/",
       "a Git LFS pointer, not the file that it stands for: run git lfs pull", true},
      {0, "\x1f\x8b", "compressed with gzip: decompress it first (gunzip)"},
      {0, "BZh", "compressed with bzip2: decompress it first (bunzip2)"},
      {0, "\xFD\x37zXZ\0"sv, "compressed with xz: decompress it first (unxz)"},
      {0, "\x28\xB5\x2F\xFD", "compressed with zstd: decompress it first (unzstd)"},
      {0, "PK\3\4", "a zip file (also .npz, .keras, .pt and .xlsx are)"},
      {0, "PK\5\6", "a zip file without an entry"},
      {257, "ustar", "a tar archive"},
      {0, "\x89HDF\r\n\x1a\n", "an HDF5 file"},
      {0, "\x93NUMPY", "an array of NumPy (.npy)"},
      {0, "\x80\2", "a pickle of Python (also .pt files of old are), which no other program reads"},
      {0, "\x80\4", "a pickle of Python, which no other program reads"},
      {0, "\x80\5", "a pickle of Python, which no other program reads"},
      {0, "\x89PNG\r\n\x1a\n", "a PNG image"},
      {0, "\xFF\xD8\xFF", "a JPEG image"},
      {0, "GIF8", "a GIF image"},
      {8, "WEBP", "a WebP image"},
      {0, "II*\0"sv, "a TIFF image"},
      {0, "MM\0*"sv, "a TIFF image"},
      {4, "ftyphei", "an HEIC image"},
      {4, "ftypavif", "an AVIF image"},
      {0, "%PDF", "a PDF document"},
      {0, "PAR1", "a Parquet file"},
      {0, "\xFF\xFE", "a text in UTF-16: save it as UTF-8"},
      {0, "\xFE\xFF", "a text in UTF-16: save it as UTF-8"}};
  head = head.substr(0, 512);
  if (head.empty()) return "empty";
  // A table whose first column is "BMI" is no image.
  const bool is_text = std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
  for (const Format& format : formats)
    if (is_text == format.is_text && head.size() > format.at &&
        head.substr(format.at).starts_with(format.magic))
      return std::string(format.words);
  if (head.starts_with("BM") &&
      head.substr(std::min<std::size_t>(6, head.size()), 4) == "\0\0\0\0"sv)
    return "a BMP image";
  // HTML and XML begin where they like, in letters of any size.
  std::string text(head.substr(std::min(head.find_first_not_of(" \t\r\n"), head.size())));
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  if (text.starts_with('{')) {
    const std::string_view keys = std::string_view(text).substr(1);
    const std::string_view first =
        keys.substr(std::min(keys.find_first_not_of(" \t\r\n"), keys.size()));
    // Of Keras ("model.weights.json") and of Hugging Face ("model.safetensors.index.json").
    if (first.starts_with("\"metadata\"") || first.starts_with("\"weight_map\""))
      return "an index of shards in JSON, which names the files that have the weights, and has "
             "none";
    if (first.starts_with('"')) return "JSON";
  }
  for (const std::string_view begin : {"<!doctype html", "<html", "<head", "<?xml"})
    if (text.starts_with(begin))
      return "a page of HTML or XML: perhaps an error of the server that it was fetched from";
  return {};
}

LOCKSTEP_INLINE std::string format_note(std::string_view head) {
  const std::string words = known_format(head);
  return words.empty() ? words : "; it is " + words;
}

}}}  // namespace lockstep::detail
