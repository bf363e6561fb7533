// PNG and JPEG, by libpng and libjpeg. What they need is there in programs that link the CMake
// target lockstep::images.
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/text.hpp"

#if defined(LOCKSTEP_HAS_PNG)
#include <png.h>
#endif
#if defined(LOCKSTEP_HAS_JPEG)
#include <cstdio>  // first: jpeglib.h needs it

#include <jpeglib.h>
#endif

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// An image as it was decoded: rows of pixels of red, green and blue.
struct DecodedImage {
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> rgb = {};
};

/// What one image may cost, since a file of a few kilobytes can ask for gigabytes and minutes.
/// Images beyond are refused before it is spent, with a DataError that names the limit.
struct ImageLimits {
  /// Bytes while it is decoded, 3 a pixel for the result among them. (Pillow refuses more pixels
  /// than these 179 million, too.)
  std::uint64_t memory = std::uint64_t{1} << 29;
  /// Scans of a JPEG: each walks over the whole image. Encoders make about 10 of a progressive one.
  int jpeg_scans = 32;
};

namespace detail {

/// Takes the memory for an image; refuses one that needs more than the limit, `more` bytes beside
/// the result.
[[nodiscard]] DecodedImage blank_image(const std::string& path, std::uint64_t height,
                                       std::uint64_t width, std::uint64_t more,
                                       const ImageLimits& limits);

[[noreturn, gnu::cold]] void refuse_image(const std::string& path,
                                          std::initializer_list<TextPiece> why);

#if defined(LOCKSTEP_HAS_PNG)

/// What a PNG is read with. libpng leaves by longjmp, since it may be built without exceptions.
struct PngReader {
  std::span<const std::byte> rest;  ///< of the file
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf leave = {};
  std::array<char, 160> message = {};

  explicit PngReader(std::span<const std::byte> bytes) : rest(bytes) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void exit(png_structp of, png_const_charp why) {
    auto* const reader = static_cast<PngReader*>(png_get_error_ptr(of));
    std::strncpy(reader->message.data(), why, reader->message.size() - 1);
    std::longjmp(reader->leave, 1);
  }
  static void quiet(png_structp, png_const_charp) {}
  static void take(png_structp of, png_bytep to, std::size_t count) {
    auto* const reader = static_cast<PngReader*>(png_get_io_ptr(of));
    if (count > reader->rest.size()) png_error(of, "it is cut off");
    std::memcpy(to, reader->rest.data(), count);
    reader->rest = reader->rest.subspan(count);
  }
};

/// Reads the header; false on an error. As run_jpeg, it holds nothing that has a destructor.
inline bool begin_png(PngReader& reader) {
  if (setjmp(reader.leave) != 0) return false;
  reader.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, &PngReader::exit, &PngReader::quiet);
  if (reader.png == nullptr) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  png_set_read_fn(reader.png, &reader, &PngReader::take);
  // blank_image has the limit.
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_benign_errors(reader.png, 0);
  // Colours, gamma, texts: no reader of training data looks at them, and so they need not be whole.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  return true;
}

/// Reads the pixels into `rgb`: the numbers of the file, of 16 bits the upper 8.
inline bool finish_png(PngReader& reader, std::size_t height, std::size_t width,
                       std::uint8_t* rgb) {
  if (setjmp(reader.leave) != 0) return false;
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_strip_alpha(reader.png);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  if (png_get_rowbytes(reader.png, reader.info) != 3 * width)
    png_error(reader.png, "libpng has rows of another size");
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t row = 0; row < height; ++row)
      png_read_row(reader.png, rgb + row * 3 * width, nullptr);
  png_read_end(reader.png, nullptr);
  return true;
}

/// Transparency is left out.
[[nodiscard]] inline DecodedImage decode_png(std::span<const std::byte> bytes,
                                             const std::string& path, const ImageLimits& limits) {
  PngReader reader(bytes);
  const auto refuse = [&] { refuse_image(path, {"damaged PNG: ", reader.message.data()}); };
  if (!begin_png(reader)) refuse();
  const std::uint64_t height = png_get_image_height(reader.png, reader.info),
                      width = png_get_image_width(reader.png, reader.info),
                      bits = std::uint64_t{png_get_bit_depth(reader.png, reader.info)} *
                             png_get_channels(reader.png, reader.info);
  constexpr std::uint64_t largest_ratio = 1032;  // of deflate
  if (height * width / 8 * bits / largest_ratio > bytes.size())
    refuse_image(path, {"damaged PNG: ", bytes.size(), " bytes cannot hold ", height, " x ", width,
                        " pixels of ", bits, " bits"});
  // libpng holds up to three rows of 8 bytes a pixel.
  DecodedImage image = blank_image(path, height, width, 24 * width, limits);
  if (!finish_png(reader, image.height, image.width, image.rgb.data())) refuse();
  return image;
}

#endif
#if defined(LOCKSTEP_HAS_JPEG)

/// libjpeg leaves by longjmp, since it may be built without exceptions.
struct JpegReader {
  jpeg_error_mgr manager{};  // first: libjpeg knows it alone
  jpeg_progress_mgr progress{};
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX] = {};
  int most_scans = 0;
  bool has_more_scans = false;

  static void exit(j_common_ptr info) {
    auto* const reader = reinterpret_cast<JpegReader*>(info->err);
    info->err->format_message(info, reader->message);
    std::longjmp(reader->leave, 1);
  }
  static void quiet(j_common_ptr) {}
  static void count_scans(j_common_ptr info) {
    auto* const reader = reinterpret_cast<JpegReader*>(info->err);
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= reader->most_scans) return;
    reader->has_more_scans = true;
    std::longjmp(reader->leave, 1);
  }
};

/// What the header of a JPEG says.
struct JpegHeader {
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::uint64_t coefficients = 0;  ///< that are held while it is decoded
};

/// a b / 255, rounded.
[[nodiscard]] constexpr std::uint8_t part_of_255(unsigned a, unsigned b) noexcept {
  return static_cast<std::uint8_t>((a * b + 127) / 255);
}

/// Reads the header, or all into `rgb` when that is not null; false on an error. Holds nothing that
/// has a destructor, so that longjmp may leave it.
inline bool run_jpeg(std::span<const std::byte> bytes, JpegReader& reader, JpegHeader& header,
                     std::uint8_t* rgb) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&reader.manager);
  reader.manager.error_exit = &JpegReader::exit;
  reader.manager.output_message = &JpegReader::quiet;
  if (setjmp(reader.leave) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  reader.progress.progress_monitor = &JpegReader::count_scans;
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  header.height = info.image_height;
  header.width = info.image_width;
  if (jpeg_has_multiple_scans(&info) != 0)
    for (int i = 0; i < info.num_components; ++i)
      header.coefficients += std::uint64_t{info.comp_info[i].width_in_blocks} *
                             info.comp_info[i].height_in_blocks * DCTSIZE2;
  if (rgb != nullptr) {
    // Four inks have no way to red, green and blue in libjpeg; YCCK has one to CMYK.
    const bool is_inks = info.num_components == 4;
    info.out_color_space = is_inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info);
    JSAMPARRAY inks = nullptr;
    if (is_inks)
      inks = info.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                    info.output_width * 4, 1);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = rgb + std::size_t{info.output_scanline} * info.output_width * 3;
      jpeg_read_scanlines(&info, is_inks ? inks : &row, 1);
      // Adobe's programs store 255 for no ink.
      const unsigned inverted = info.saw_Adobe_marker != 0 ? 0 : 255;
      for (std::size_t i = 0; is_inks && i < std::size_t{info.output_width} * 3; ++i)
        row[i] =
            part_of_255(inks[0][i / 3 * 4 + i % 3] ^ inverted, inks[0][i / 3 * 4 + 3] ^ inverted);
    }
    // A file that is cut off is a warning to libjpeg, which makes up the rest in grey.
    if (info.err->num_warnings > 0) info.err->error_exit(reinterpret_cast<j_common_ptr>(&info));
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

[[nodiscard]] inline DecodedImage decode_jpeg(std::span<const std::byte> bytes,
                                              const std::string& path, const ImageLimits& limits) {
  JpegReader reader;
  reader.most_scans = limits.jpeg_scans;
  JpegHeader header;
  const auto refuse = [&] {
    if (reader.has_more_scans)
      refuse_image(path, {"it has more scans than ImageLimits::jpeg_scans, ", limits.jpeg_scans,
                          "; got the header of scan ", limits.jpeg_scans + 1,
                          ": save it anew, or raise the limit"});
    refuse_image(path,
                 {"damaged JPEG, or one of a kind that libjpeg does not decode: ", reader.message});
  };
  if (!run_jpeg(bytes, reader, header, nullptr)) refuse();
  // (libjpeg has a few rows of up to 16 lines besides.)
  DecodedImage image = blank_image(path, header.height, header.width,
                                   2 * header.coefficients + 256 * header.width, limits);
  if (!run_jpeg(bytes, reader, header, image.rgb.data())) refuse();
  return image;
}

#endif

}  // namespace detail

#if defined(LOCKSTEP_HAS_PNG) || defined(LOCKSTEP_HAS_JPEG)

/// Decodes PNG and JPEG, where the program links libpng and libjpeg; errors name `path`. The
/// numbers are those of the file, as Pillow and tf.io.decode_image have them: colour profiles and
/// gamma are not applied, of 16 bits the upper 8 are taken, transparency is left out, and inks
/// (CMYK and YCCK JPEG) become red, green and blue. Throws DataError for other files, for damaged
/// ones, and for those beyond the limits.
struct DecodeImage {
  ImageLimits limits = {};

  [[nodiscard]] DecodedImage operator()(std::span<const std::byte> bytes,
                                        const std::string& path) const {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
#if defined(LOCKSTEP_HAS_PNG)
    if (text.starts_with("\x89PNG")) return detail::decode_png(bytes, path, limits);
#endif
#if defined(LOCKSTEP_HAS_JPEG)
    if (text.starts_with("\xFF\xD8\xFF")) return detail::decode_jpeg(bytes, path, limits);
#endif
    detail::refuse_image(path,
                         {"it is neither PNG nor JPEG, or of a kind for which this program has "
                          "no library (libpng, libjpeg)",
                          detail::format_note(text)});
  }
};

#endif

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/image_decoders.ipp"
#endif
