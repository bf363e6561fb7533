// Writes the numbers of a sample's tokens in the form of an output.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/token_output.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Takes one number after the other.
template <class T>
class NumberWriter {
 public:
  /// `numbers`: how many there are; `weights`: one each, of tf_idf. `owner` is for errors. Throws
  /// ConfigurationError for more numbers than T has.
  NumberWriter(std::string_view owner, TextOutput output, std::size_t numbers,
               std::span<const float> weights, std::span<T> x)
      : owner_(owner), output_(output), numbers_(numbers), weights_(weights), x_(x) {
    if (output == TextOutput::int_ && numbers > std::size_t{1} << std::numeric_limits<T>::digits)
      throw ConfigurationError(concat({owner, ": ", numbers,
                                       " numbers are more than the scalar type has (float: 2^24 = "
                                       "16,777,216): write them as double"}));
    std::fill(x_.begin(), x_.end(), T(0));
  }

  void add(std::size_t number) {
    const std::size_t value = values_++;
    if (encoded_size(output_, numbers_, values_) > x_.size()) return;  // finish() says so
    const bool is_masked = number == masked_number;
    if (output_ == TextOutput::int_)
      x_[value] = static_cast<T>(is_masked ? 0 : number);
    else if (is_masked)
      return;
    else if (output_ == TextOutput::count)
      x_[number] += 1;
    else if (output_ == TextOutput::tf_idf)
      x_[number] += static_cast<T>(weights_[number]);
    else
      x_[(output_ == TextOutput::one_hot ? value * numbers_ : 0) + number] = 1;
  }

  /// Throws ConfigurationError where the tokens need more or less room than there is.
  void finish() const {
    const std::size_t size = encoded_size(output_, numbers_, values_);
    if (x_.size() != size)
      throw ConfigurationError(
          concat({owner_, ": expected room for ", size, " numbers, got ", x_.size()}));
  }

 private:
  std::string_view owner_;
  TextOutput output_;
  std::size_t numbers_, values_ = 0;
  std::span<const float> weights_;
  std::span<T> x_;
};

}}}  // namespace lockstep::detail
