// BadSample: the error of a sample that a layer or a loss cannot use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Layers and losses see rows of a batch. fit and evaluate, which know the samples, put the
/// sample's name in place of the row.
class BadSample : public DataError {
 public:
  /// The message is `before`, "row 3 of the batch", `after`.
  BadSample(std::string_view before, std::size_t row, std::string_view after)
      : DataError(concat({before, "row ", row, " of the batch", after})),
        before_(before),
        after_(after),
        row_(row) {}

  [[nodiscard]] std::size_t row() const noexcept { return row_; }
  /// The same, with the sample in place of the row.
  [[nodiscard]] DataError of_sample(std::string_view sample) const {
    return DataError(concat({before_, sample, after_}));
  }

 private:
  std::string before_;
  std::string after_;
  std::size_t row_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
