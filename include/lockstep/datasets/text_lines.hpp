// Files of lines, a sample each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/datasets/mapped_file.hpp"
#include "lockstep/datasets/parsed_records.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The lines of a file, without their ends (LF or CR LF); a last one need not have an end. The
/// system reads the parts of the file that are asked for; of each line, the place is kept. Copies
/// share the file, which must not become shorter meanwhile.
class LineFile {
 public:
  /// Leaves out the first `skip` lines, and empty ones where `skip_empty`. Throws DataError when
  /// the file cannot be read.
  explicit LineFile(const std::string& path, std::size_t skip = 0, bool skip_empty = true);

  [[nodiscard]] std::size_t size() const noexcept { return begins_->size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const;

 private:
  std::shared_ptr<const detail::MappedFile> file_;
  std::shared_ptr<const std::vector<std::uint64_t>> begins_;
};

struct TextLinesOptions {
  std::size_t skip = 0;    ///< lines at the beginning
  bool skip_empty = true;  ///< lines without a character are no samples
};

/// Sample i is what `f(std::string_view line, Sample<T>& sample)` makes of line i: see
/// ParsedRecords. What f's `description()` says, if it has one, is compared between workers.
template <class F>
class TextLines : public detail::ParsedRecords<LineFile, F> {
 public:
  /// `sizes`: of what f makes of a line.
  TextLines(const std::string& path, F f, SampleSizes sizes, const TextLinesOptions& options = {})
      : detail::ParsedRecords<LineFile, F>(LineFile(path, options.skip, options.skip_empty),
                                           std::move(f), sizes) {}
  void describe(PipelineDescription& description) const {
    description.add({"from_text_lines(", this->description(), ")"});
  }
};

/// A pipeline of the lines of files; with AutoShardPolicy::file each worker reads its own. `sizes`:
/// of what f makes of a line.
/// @code
/// from_text_lines({"reviews.txt"}, tokenize, {.sample_size = 64, .target_size = 1}, {.skip = 1})
/// @endcode
/// Use: `from_text_lines({"reviews.txt"}, [](std::string_view line, auto& sample) { sample.x[0] =
/// static_cast<float>(line.size()); }, {.sample_size = 1})`. Keras: `TextLineDataset`.
template <class F>
[[nodiscard]] auto from_text_lines(std::vector<std::string> paths, F f, SampleSizes sizes,
                                   TextLinesOptions options = {}) {
  return from_files(std::move(paths), [f, sizes, options](const std::string& path) {
    return TextLines<F>(path, f, sizes, options);
  });
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/text_lines.ipp"
#endif
