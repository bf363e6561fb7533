// Records of a file that a function of the user's makes samples of.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The samples that `f(records[i], sample)` writes to sample.x and sample.y, a Sample<T> with T =
/// float or double, or both. They are zero before.
template <class Records, class F>
class ParsedRecords {
  using Record = decltype(std::declval<const Records&>()[0]);
  template <class T>
  static constexpr bool takes = std::invocable<F&, Record, Sample<T>&>;
  static_assert(
      takes<float> || takes<double>,
      "lockstep: the function of from_text_lines, from_fixed_length_records and from_tar_shards "
      "must be callable as f(record, lockstep::Sample<T>& sample), T being float or double, and "
      "record a std::string_view, a std::span<const std::uint8_t> or a const lockstep::TarSample&");

 public:
  ParsedRecords(Records records, F f, SampleSizes sizes)
      : records_(std::move(records)), f_(std::move(f)), sizes_(sizes) {}

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(records_.size());
  }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sizes_.sample_size; }
  [[nodiscard]] std::size_t target_size() const noexcept { return sizes_.target_size; }

  /// What f's `description()` says, if it has one.
  [[nodiscard]] std::string description() const {
    if constexpr (requires(const F& f) { f.description(); })
      return (*f_).description();
    else
      return {};
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    using U = std::conditional_t<takes<T>, T, std::conditional_t<takes<float>, float, double>>;
    U* const xs = scratch_.template get<U>(sizes_.sample_size + sizes_.target_size);
    U* const ys = xs + sizes_.sample_size;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::fill(xs, ys + sizes_.target_size, U(0));
      Sample<U> sample{{xs, sizes_.sample_size}, {ys, sizes_.target_size}, indices[i]};
      (*f_)(records_[static_cast<std::size_t>(indices[i])], sample);
      copy_in<T>(xs, x, i, 1);
      if (!y.empty()) copy_in<T>(ys, y, i, 1);
    }
  }

 private:
  Records records_;
  Assignable<F> f_;
  SampleSizes sizes_;
  Scratch scratch_;
};

}}}  // namespace lockstep::detail
