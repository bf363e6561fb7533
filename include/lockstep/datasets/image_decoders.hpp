// PNG and JPEG, by libpng and libjpeg. What they need is there in programs that link the CMake
// target lockstep::images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_PNG)
#include <png.h>
#endif
#if defined(LOCKSTEP_HAS_JPEG)
#include <csetjmp>
#include <cstdio>  // first: jpeglib.h needs it

#include <jpeglib.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI {

/// An image as it was decoded: rows of pixels of red, green and blue.
struct DecodedImage {
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> rgb = {};
};

namespace detail {

/// Takes the memory for an image; refuses one of more than 2^28 pixels before.
[[nodiscard]] DecodedImage blank_image(const std::string& path, std::uint64_t height,
                                       std::uint64_t width);

#if defined(LOCKSTEP_HAS_PNG)

/// Transparency is left out.
[[nodiscard]] inline DecodedImage decode_png(std::span<const std::byte> bytes,
                                             const std::string& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  struct Free {
    png_image& image;
    ~Free() { png_image_free(&image); }
  } const free{png};
  const auto refuse = [&] {
    throw DataError(concat({"image ", path, ": damaged PNG: ", png.message}));
  };
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) refuse();
  DecodedImage image = blank_image(path, png.height, png.width);
  png.format = PNG_FORMAT_RGBA;
  std::vector<std::uint8_t> rgba(image.height * image.width * 4);
  if (png_image_finish_read(&png, nullptr, rgba.data(), 0, nullptr) == 0) refuse();
  for (std::size_t i = 0; i < image.height * image.width; ++i)
    std::memcpy(image.rgb.data() + 3 * i, rgba.data() + 4 * i, 3);
  return image;
}

#endif
#if defined(LOCKSTEP_HAS_JPEG)

/// libjpeg leaves by longjmp, since it may be built without exceptions.
struct JpegError {
  jpeg_error_mgr manager{};
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX] = {};

  static void exit(j_common_ptr info) {
    auto* const error = reinterpret_cast<JpegError*>(info->err);  // manager is its first member
    info->err->format_message(info, error->message);
    std::longjmp(error->leave, 1);
  }
  static void quiet(j_common_ptr) {}
};

/// Reads the header, or all into `rgb` when that is not null; false on an error. Holds nothing that
/// has a destructor, so that longjmp may leave it.
inline bool run_jpeg(std::span<const std::byte> bytes, JpegError& error, std::uint64_t& height,
                     std::uint64_t& width, std::uint8_t* rgb) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = &JpegError::exit;
  error.manager.output_message = &JpegError::quiet;
  if (setjmp(error.leave) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  height = info.image_height;
  width = info.image_width;
  if (rgb != nullptr) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = rgb + std::size_t{info.output_scanline} * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    // A file that is cut off is a warning to libjpeg, which makes up the rest in grey.
    if (info.err->num_warnings > 0) info.err->error_exit(reinterpret_cast<j_common_ptr>(&info));
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

[[nodiscard]] inline DecodedImage decode_jpeg(std::span<const std::byte> bytes,
                                              const std::string& path) {
  JpegError error;
  std::uint64_t height = 0, width = 0;
  const auto refuse = [&] {
    throw DataError(concat({"image ", path, ": damaged JPEG: ", error.message}));
  };
  if (!run_jpeg(bytes, error, height, width, nullptr)) refuse();
  DecodedImage image = blank_image(path, height, width);
  if (!run_jpeg(bytes, error, height, width, image.rgb.data())) refuse();
  return image;
}

#endif

}  // namespace detail

#if defined(LOCKSTEP_HAS_PNG) || defined(LOCKSTEP_HAS_JPEG)

/// Decodes PNG and JPEG, as far as there are libraries for them; `path` is that of the errors.
/// Throws DataError for other files and for damaged ones.
struct DecodeImage {
  [[nodiscard]] DecodedImage operator()(std::span<const std::byte> bytes,
                                        const std::string& path) const {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
#if defined(LOCKSTEP_HAS_PNG)
    if (text.starts_with("\x89PNG")) return detail::decode_png(bytes, path);
#endif
#if defined(LOCKSTEP_HAS_JPEG)
    if (text.starts_with("\xFF\xD8\xFF")) return detail::decode_jpeg(bytes, path);
#endif
    throw DataError(concat({"image ", path,
                            ": is neither PNG nor JPEG, or of a kind for which this program has no "
                            "library (libpng, libjpeg)"}));
  }
};

#endif

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/image_decoders.ipp"
#endif
