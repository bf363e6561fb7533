// Files of lines, a sample each.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/gather.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// The lines of a file, without their ends (LF or CR LF); a last one need not have an end. The
/// system reads the parts of the file that are asked for; of each line, the place is kept. Copies
/// share the file, which must not become shorter meanwhile.
class LineFile {
 public:
  /// Leaves out the first `skip` lines, and empty ones where `skip_empty`. Throws DataError when the
  /// file cannot be read.
  explicit LineFile(const std::string& path, std::size_t skip = 0, bool skip_empty = true);

  [[nodiscard]] std::size_t size() const noexcept { return begins_->size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const;

 private:
  std::shared_ptr<const detail::MappedFile> file_;
  std::shared_ptr<const std::vector<std::uint64_t>> begins_;
};

struct TextLinesOptions {
  SampleSizes sizes{};     ///< of what f makes of a line
  std::size_t skip = 0;    ///< lines at the beginning
  bool skip_empty = true;  ///< lines without a character are no samples
};

/// Sample i is what `f(line, sample)` makes of line i: f is called as f(std::string_view,
/// Sample<T>&), T being float or double, and writes to sample.x and sample.y, which are zero before.
template <class F>
class TextLines {
  static constexpr bool for_float = std::invocable<const F&, std::string_view, Sample<float>&>;
  static_assert(for_float || std::invocable<const F&, std::string_view, Sample<double>&>,
                "lockstep: the function of from_text_lines(paths, f, options) must be callable as "
                "f(std::string_view line, lockstep::Sample<T>& sample), T being float or double");

 public:
  TextLines(const std::string& path, F f, TextLinesOptions options)
      : lines_(path, options.skip, options.skip_empty), f_(std::move(f)), sizes_(options.sizes) {}

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(lines_.size()); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sizes_.sample_size; }
  [[nodiscard]] std::size_t target_size() const noexcept { return sizes_.target_size; }
  void describe(PipelineDescription& description) const { description.add({"from_text_lines"}); }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    using U = std::conditional_t<std::invocable<const F&, std::string_view, Sample<T>&>, T,
                                 std::conditional_t<for_float, float, double>>;
    U* const xs = scratch_.template get<U>(sizes_.sample_size + sizes_.target_size);
    U* const ys = xs + sizes_.sample_size;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::fill(xs, ys + sizes_.target_size, U(0));
      Sample<U> sample{{xs, sizes_.sample_size}, {ys, sizes_.target_size}, indices[i]};
      (*f_)(lines_[static_cast<std::size_t>(indices[i])], sample);
      detail::copy_in<T>(xs, x, i, 1);
      if (!y.empty()) detail::copy_in<T>(ys, y, i, 1);
    }
  }

 private:
  LineFile lines_;
  detail::Assignable<F> f_;
  SampleSizes sizes_;
  detail::Scratch scratch_;
};

/// A pipeline of the lines of files; with AutoShardPolicy::file each worker reads its own.
/// @code
/// from_text_lines({"reviews.txt"}, tokenize, {.sizes = {.sample_size = 64, .target_size = 1}})
/// @endcode
template <class F>
[[nodiscard]] auto from_text_lines(std::vector<std::string> paths, F f, TextLinesOptions options) {
  return from_files(std::move(paths), [f, options](const std::string& path) { return TextLines<F>(path, f, options); });
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/datasets/text_lines.ipp"
#endif
