// Batches of samples that are padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// For padded_batch.
struct PaddedBatchOptions {
  std::size_t padded_size = 0;  ///< elements of a sample; 0: as many as it has
  double padding_value = 0;     ///< behind a sample's own elements
  bool drop_remainder = false;
};

/// Batch, of samples that are padded at their end to the size of the model's input. Targets stay.
template <class Upstream>
class PaddedBatch : public Transform<Batch<Upstream>> {
  using Transform<Batch<Upstream>>::upstream_;

 public:
  /// Throws ConfigurationError when size is below 1.
  PaddedBatch(Upstream upstream, std::int64_t size, PaddedBatchOptions options)
      : Transform<Batch<Upstream>>(
            Batch<Upstream>(std::move(upstream), size, options.drop_remainder)),
        options_(options) {}

  /// Throws DataError when samples are larger than padded_size.
  [[nodiscard]] std::size_t sample_size() const {
    const std::size_t own = upstream_.sample_size();
    if (options_.padded_size == 0) return own;
    if (own > options_.padded_size)
      throw DataError(
          concat({"padded_batch: samples have ", own, " elements, more than padded_size, ",
                  options_.padded_size, "; cut them with a map, or make padded_size larger"}));
    return options_.padded_size;
  }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return sample_size() == upstream_.sample_size() ? upstream_.sample_shape()
                                                    : std::vector{sample_size()};
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"padded to ", options_.padded_size, " with ", options_.padding_value});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    const std::size_t own = upstream_.sample_size();
    upstream_.read(samples, TensorView<T>(x.data(), x.samples(), own, x.stride()), y);
    for (std::size_t f = own; f < x.features(); ++f)
      for (std::size_t i = 0; i < x.samples(); ++i)
        x(i, f) = static_cast<T>(options_.padding_value);
  }

 private:
  PaddedBatchOptions options_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
