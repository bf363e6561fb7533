// What every collective must do, for tests of those that are not in this room too.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep_test {

using lockstep::Buffer;
using lockstep::Error;
using lockstep::ExitCode;
using lockstep::Partition;
using lockstep::ReduceOp;

inline std::vector<std::size_t> lengths(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return {0, 1, n - 1, n, n + 1, 1009, block_elements, 3 * block_elements + 17};
}

// `period` again and again. It is copied and not computed, since the thread sanitizer looks at each
// access that the compiler sees.
template <class T>
std::vector<T> repeated(const std::vector<T>& period, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; i += period.size())
    std::memcpy(values.data() + i, period.data(), std::min(period.size(), count - i) * sizeof(T));
  return values;
}

// Small whole numbers: their sums are exact in every type and order.
inline constexpr std::size_t period_of_whole_numbers = 101;

template <class T>
std::vector<T> whole_numbers(int rank, std::size_t count) {
  std::vector<T> period(period_of_whole_numbers);
  for (std::size_t i = 0; i < period.size(); ++i)
    period[i] = static_cast<T>(
        static_cast<std::int64_t>(i * 7 + static_cast<std::size_t>(rank) * 13) % 101 - 50);
  return repeated(period, count);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Failures of all ranks, to be checked on the test's own thread.
class Complaints {
 public:
  void unless(bool condition, const std::string& text) {
    if (condition) return;
    const std::lock_guard lock(mutex_);
    list_.insert(text);
  }
  void check() const {
    for (const std::string& text : list_) FAIL_CHECK(text);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> list_;
};

template <class T, class C>
void reduces_exactly(C& collective, Complaints& complaints) {
  const int ranks = collective.size();
  for (const std::size_t count : lengths(ranks)) {
    const std::string what = std::to_string(count) + " elements of " + std::to_string(sizeof(T)) +
                             " bytes, " + std::to_string(ranks) + " ranks";
    constexpr std::size_t period = period_of_whole_numbers;
    std::vector<T> sum(period), max(period, std::numeric_limits<T>::lowest());
    for (int rank = 0; rank < ranks; ++rank) {
      const auto values = whole_numbers<T>(rank, period);
      for (std::size_t i = 0; i < period; ++i) {
        sum[i] = static_cast<T>(sum[i] + values[i]);
        max[i] = std::max(max[i], values[i]);
      }
    }
    sum = repeated(sum, count);
    max = repeated(max, count);
    auto values = whole_numbers<T>(collective.rank(), count);
    collective.all_reduce(std::span<T>(values), ReduceOp::sum);
    complaints.unless(same_bits(values, sum), "sum of " + what);

    values = whole_numbers<T>(collective.rank(), count);
    collective.all_reduce(std::span<T>(values), ReduceOp::max);
    complaints.unless(same_bits(values, max), "max of " + what);

    for (const std::size_t status_count : {std::size_t{0}, std::size_t{5}}) {
      values = whole_numbers<T>(collective.rank(), count);
      std::vector<double> status(status_count, collective.rank() + 1.0);
      collective.all_reduce(std::span<double>(status), std::span<T>(values));
      complaints.unless(same_bits(values, sum), "sum with a status of " + what);
      complaints.unless(status == std::vector<double>(status_count, ranks * (ranks + 1) / 2.0),
                        "status with " + what);
    }
  }
}

template <class C>
void moves_bytes(C& collective, Complaints& complaints) {
  const int ranks = collective.size();
  const auto content = [](int rank, std::size_t count) {
    std::vector<std::byte> period(256);
    for (std::size_t i = 0; i < period.size(); ++i)
      period[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank));
    return repeated(period, count);
  };
  for (const std::size_t count : {0u, 1u, 3u, 1009u, 700'001u}) {
    for (int root = 0; root < ranks; ++root) {
      std::vector<std::byte> bytes(count, std::byte{0xEE});
      const std::vector<std::byte> sent = content(root, count);
      if (collective.rank() == root) bytes = sent;
      collective.broadcast(std::span(bytes), root);
      complaints.unless(same_bits(bytes, sent), "broadcast of " + std::to_string(count) +
                                                    " bytes from " + std::to_string(root));
    }
    const std::vector<std::byte> mine = content(collective.rank(), count);
    std::vector<std::byte> all(count * static_cast<std::size_t>(ranks)), gathered;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<std::byte> of_rank = content(rank, count);
      gathered.insert(gathered.end(), of_rank.begin(), of_rank.end());
    }
    collective.all_gather(std::span<const std::byte>(mine), std::span(all));
    complaints.unless(same_bits(all, gathered),
                      "all_gather of " + std::to_string(count) + " bytes");

    // And with mine in its place.
    collective.all_gather(std::span<const std::byte>(all).subspan(
                              count * static_cast<std::size_t>(collective.rank()), count),
                          std::span(all));
    complaints.unless(same_bits(all, gathered),
                      "all_gather in place of " + std::to_string(count) + " bytes");
  }
}

/// Every operation, on whole numbers, with 1 to Family::largest ranks.
template <class Family>
void every_operation() {
  for (int size = 1; size <= Family::largest; ++size) {
    CAPTURE(Family::name);
    CAPTURE(size);
    Complaints complaints;
    Family::run(size, [&](auto& collective) {
      complaints.unless(collective.size() == size, "size");
      reduces_exactly<float>(collective, complaints);
      reduces_exactly<double>(collective, complaints);
      reduces_exactly<std::int64_t>(collective, complaints);
      collective.barrier();
      moves_bytes(collective, complaints);
      collective.barrier();
    });
    complaints.check();
  }
}

/// The two halves of an all-reduce make a whole one, bit for bit.
template <class Family>
void halves_make_a_whole() {
  for (int size = 1; size <= Family::largest; ++size) {
    CAPTURE(size);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, block_elements, 9 * block_elements + 4099}) {
      CAPTURE(count);
      std::vector<std::vector<float>> floats;
      for (int rank = 0; rank < size; ++rank) floats.push_back(random_numbers<float>(rank, count));
      const auto sums = contract_sum(floats);
      Complaints complaints;
      Family::run(size, [&](auto& collective) {
        const Partition partition(count, size);
        // In the collective's own memory, and in the test's.
        Buffer buffer;
        if constexpr (requires { collective.allocate(std::size_t{}); })
          buffer = collective.allocate(count * sizeof(float));
        std::vector<float> own(count);
        for (const bool is_own : {true, false}) {
          if (!is_own && buffer.size() == 0) continue;
          const std::span<float> values =
              is_own ? std::span(own) : std::span(reinterpret_cast<float*>(buffer.data()), count);
          std::ranges::copy(floats[static_cast<std::size_t>(collective.rank())], values.begin());
          collective.reduce_scatter_blocks(values);
          for (std::size_t i = 0; i < partition.blocks(); ++i) {
            const auto [offset, n] = partition.block(i);
            const auto block = values.subspan(offset, n);
            if (partition.last_rank(i) == collective.rank())
              complaints.unless(std::equal(block.begin(), block.end(),
                                           sums.begin() + static_cast<std::ptrdiff_t>(offset)),
                                "sums");
            else
              std::ranges::fill(block, -1.0F);
          }
          collective.all_gather_blocks(values);
          complaints.unless(std::equal(values.begin(), values.end(), sums.begin()), "gathered");
        }
      });
      complaints.check();
    }
  }
}

/// NaN is the maximum, and integers wrap around.
template <class Family>
void nan_is_the_maximum() {
  Family::run(2, [](auto& collective) {
    std::vector<float> values{1, std::numeric_limits<float>::quiet_NaN(), 3};
    if (collective.rank() == 1) values = {2, 5, std::numeric_limits<float>::quiet_NaN()};
    collective.all_reduce(std::span(values), ReduceOp::max);
    std::vector<std::int64_t> integers{std::numeric_limits<std::int64_t>::max() -
                                       collective.rank()};
    collective.all_reduce(std::span(integers));
    if (values[0] != 2 || values[1] == values[1] || values[2] == values[2] || integers[0] != -3)
      throw Error("rank " + std::to_string(collective.rank()));
  });
}

/// Wrong arguments are refused before anything is sent.
template <class Family>
void wrong_arguments_are_refused() {
  Family::run(2, [](auto& collective) {
    std::vector<std::byte> mine(3), all(5);
    CHECK_THROWS_WITH_AS(collective.all_gather(std::span<const std::byte>(mine), std::span(all)),
                         "all_gather: 2 ranks of 3 bytes do not fill 5 bytes", Error);
    CHECK_THROWS_WITH_AS(collective.broadcast(std::span(all), 2),
                         "broadcast: there is no rank 2 among 2", Error);
    CHECK_THROWS_AS(collective.broadcast(std::span(all), -1), Error);
    collective.barrier();
  });
}

/// What one rank reports, all others hear.
template <class Family>
void all_hear_what_one_reports() {
  const int size = 4;
  std::vector<std::string> heard(size);
  std::vector<ExitCode> codes(size, ExitCode::success);
  try {
    Family::run(size, [&](auto& collective) {
      const auto rank = static_cast<std::size_t>(collective.rank());
      std::vector<float> values(1000);
      try {
        // A rank that has its sum may report before a slower one has come out of the same
        // operation.
        collective.all_reduce(std::span(values));
        if (rank == 2) {
          collective.abort("the loss is not finite", ExitCode::failure);
          heard[rank] = "the loss is not finite";
          return;
        }
        collective.all_reduce(std::span(values));
      } catch (const CollectiveError& error) {
        heard[rank] = error.what();
        codes[rank] = error.exit_code();
        throw;
      }
    });
  } catch (const CollectiveError&) {
  }
  for (int rank = 0; rank < size; ++rank) {
    CAPTURE(rank);
    CHECK(heard[static_cast<std::size_t>(rank)].find("the loss is not finite") !=
          std::string::npos);
    if (rank != 2) CHECK(codes[static_cast<std::size_t>(rank)] == ExitCode::failure);
  }
}

}  // namespace lockstep_test
