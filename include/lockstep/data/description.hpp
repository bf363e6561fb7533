// What a dataset says of itself: for comparing the workers' data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A pipeline in words, from its source on. Its stages add to it, each after the one before it.
struct PipelineDescription {
  std::string text;              ///< "from_tensor_slices -> shuffle(60000) -> repeat -> batch(128)"
  std::int64_t batch_size = 0;   ///< samples in a global batch; 0: not known
  bool drops_remainder = false;  ///< fewer samples than a batch are left out
  bool is_reshuffled = false;    ///< each pass has another order
  bool is_part_of_reshuffled = false;  ///< and a part of it is taken: other samples in each pass

  /// Adds a stage: its name and its options.
  void add(std::initializer_list<TextPiece> stage);
  /// Adds a stage that leaves out items by their place.
  void add_part(std::initializer_list<TextPiece> stage, bool leaves_some = true) {
    add(stage);
    is_part_of_reshuffled = is_part_of_reshuffled || (is_reshuffled && leaves_some);
  }
};

/// The size of a source, and a checksum of some of its samples: equal for equal contents.
struct SourceFingerprint {
  std::int64_t samples = unknown_cardinality;  ///< in the source
  std::int64_t checked = 0;                    ///< how many of them the checksum is over
  std::uint32_t checksum = 0;                  ///< CRC-32C
};

namespace detail {

/// The samples that a fingerprint reads: the first, the last and others evenly between them; 16, or
/// fewer where a sample has many elements, so that it costs about a millisecond.
[[nodiscard]] std::vector<std::int64_t> fingerprint_positions(std::int64_t samples,
                                                              std::size_t elements);

/// Over all values of both, without the padding.
[[nodiscard]] std::uint32_t fingerprint_checksum(TensorView<const float> x,
                                                 TensorView<const float> y);

/// Whether elements have the same places in both shapes: the extents are equal, apart from those of
/// 1, or one shape is flat and of equal size.
[[nodiscard]] bool is_same_shape(std::span<const std::size_t> a, std::span<const std::size_t> b);

/// `extents` if they hold `size` elements, else the flat shape of `size`.
[[nodiscard]] std::vector<std::size_t> shape_of_size(std::vector<std::size_t> extents,
                                                     std::size_t size);

}  // namespace detail
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/description.ipp"
#endif
