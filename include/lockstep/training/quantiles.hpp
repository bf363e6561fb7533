// The boundaries that part values into bins of equal numbers, exactly the same on all ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Finds some of the sorted values of all ranks without sorting them: each of three passes over the
/// data counts the next bits of those values whose first bits are those of a wanted one. Counts are
/// whole numbers, so that their sum depends neither on the order of the data nor on who has them.
/// From those values come the boundaries of Keras's Discretization.adapt (version 3.15,
/// discretization.py: summarize, compress_summary), given all data in one array.
class QuantileSearch {
 public:
  static constexpr int passes = 3;

  QuantileSearch(double epsilon, std::size_t boundaries)
      : epsilon_(epsilon), boundaries_(boundaries) {}

  /// In each pass, all values of this rank. NaN is none.
  void take(std::span<const float> values) {
    for (const float value : values) {
      if (std::isnan(value)) continue;
      const std::uint32_t key = key_of(value);
      const std::uint32_t prefix = pass_ == 0 ? 0 : key >> shift(pass_ - 1);
      const auto found = std::ranges::lower_bound(prefixes_, prefix);
      if (found == prefixes_.end() || *found != prefix) continue;
      const auto begin = static_cast<std::size_t>(found - prefixes_.begin()) << bits;
      counts_[begin + ((key >> shift(pass_)) & (width - 1))] += 1;
    }
  }
  /// At the end of a pass: to be summed over all ranks before `finish_pass`.
  [[nodiscard]] std::span<double> counts() noexcept { return counts_; }
  void finish_pass() {
    if (pass_ == 0) choose_values();
    std::vector<std::uint32_t> prefixes;
    for (Value& value : values_) {
      const auto place = std::ranges::lower_bound(prefixes_, value.prefix) - prefixes_.begin();
      const double* count = counts_.data() + (static_cast<std::size_t>(place) << bits);
      std::uint32_t next = 0;
      for (; next + 1 < width && value.rank >= *count; ++next) value.rank -= *count++;
      value.prefix = (value.prefix << (pass_ + 1 < passes ? bits : last_bits)) | next;
      if (prefixes.empty() || prefixes.back() != value.prefix) prefixes.push_back(value.prefix);
    }
    prefixes_ = std::move(prefixes);
    counts_.assign(prefixes_.size() << bits, 0);
    ++pass_;
  }
  /// Of all ranks, after the first pass.
  [[nodiscard]] double count() const noexcept { return count_; }

  /// After the last pass, unless there are no values. Infinite where there are fewer values than
  /// bins.
  [[nodiscard]] std::vector<float> boundaries() const {
    Summary summary;
    for (const Value& value : values_)
      summary.push_back({value_of(value.prefix), static_cast<float>(step_)});
    summary = compressed(summary, epsilon_, std::ceil(1 / epsilon_));
    const double bins = static_cast<double>(boundaries_ + 1);
    summary = compressed(summary, 1 / bins, bins);
    std::vector<float> all;
    for (std::size_t i = 0; i + 1 < summary.size() && i < boundaries_; ++i)
      all.push_back(summary[i].value);
    all.resize(boundaries_, std::numeric_limits<float>::infinity());
    return all;
  }

 private:
  static constexpr int bits = 11, last_bits = 32 - bits * (passes - 1);
  static constexpr std::uint32_t width = std::uint32_t{1} << bits;

  /// A wanted value: the bits known so far, and its rank among the values that share them.
  struct Value {
    std::uint32_t prefix = 0;
    double rank = 0;
  };
  /// What stands for `weight` values.
  struct Part {
    float value, weight;
  };
  using Summary = std::vector<Part>;

  static constexpr int shift(int pass) { return pass + 1 < passes ? 32 - bits * (pass + 1) : 0; }

  /// Numbers in the order of the values.
  static std::uint32_t key_of(float value) {
    const auto number = std::bit_cast<std::uint32_t>(value);
    constexpr std::uint32_t sign = std::uint32_t{1} << 31;
    return (number & sign) != 0 ? ~number : number | sign;
  }
  static float value_of(std::uint32_t key) {
    constexpr std::uint32_t sign = std::uint32_t{1} << 31;
    return std::bit_cast<float>((key & sign) != 0 ? key & ~sign : ~key);
  }

  /// Keras's summarize: every step-th of the sorted values, of one array.
  void choose_values() {
    count_ = 0;
    for (const double count : counts_) count_ += count;
    step_ = std::max(count_ / (1 / epsilon_), 1.0);
    const auto step = static_cast<std::int64_t>(step_);
    for (std::int64_t rank = step - 1; rank < static_cast<std::int64_t>(count_); rank += step)
      values_.push_back({.rank = static_cast<double>(rank)});
  }

  /// Keras's compress_summary to `parts` of a share each: between the parts that there are, it
  /// interpolates (in double, between sums of float).
  static Summary compressed(const Summary& summary, double share, double parts) {
    if (static_cast<double>(summary.size()) * share < 1) return summary;
    std::vector<float> sums;
    for (const Part& part : summary) sums.push_back((sums.empty() ? 0 : sums.back()) + part.weight);
    const float total = sums.back();
    Summary smaller;
    double before = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i) {
      const double percent = share + static_cast<double>(i) * share;
      const auto place = [&](std::size_t j) { return static_cast<double>(sums[j] / total); };
      std::size_t next = 0;
      while (next < sums.size() && place(next) <= percent) ++next;
      const auto between = [&](const auto& y) {
        if (next == 0) return static_cast<double>(y(0));
        if (next == sums.size()) return static_cast<double>(y(next - 1));
        const double low = y(next - 1), slope = (y(next) - low) / (place(next) - place(next - 1));
        const double from_low = slope * (percent - place(next - 1)) + low;
        if (!std::isnan(from_low)) return from_low;  // (else one of them is infinite)
        const double from_high = slope * (percent - place(next)) + y(next);
        return std::isnan(from_high) ? low : from_high;
      };
      const double sum = between([&](std::size_t j) { return static_cast<double>(sums[j]); });
      smaller.push_back({static_cast<float>(between(
                             [&](std::size_t j) { return static_cast<double>(summary[j].value); })),
                         static_cast<float>(sum - before)});
      before = sum;
    }
    return smaller;
  }

  double epsilon_;
  std::size_t boundaries_;
  int pass_ = 0;
  double count_ = 0, step_ = 1;
  std::vector<std::uint32_t> prefixes_ = {0};  ///< of the wanted values, in increasing order
  std::vector<double> counts_ = std::vector<double>(width);
  std::vector<Value> values_;
};

}}}  // namespace lockstep::detail
