// One suite for every collective of the library.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/core/random.hpp"

using namespace lockstep;
using namespace lockstep_test;

namespace {

struct SingleFamily {
  static constexpr const char* name = "single";
  static constexpr int largest = 1;
  template <class F>
  static void run(int, F f) {
    Single collective;
    f(collective);
  }
};

std::vector<std::size_t> lengths(int ranks) {
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

}  // namespace

TEST_SUITE("collective") {
  TEST_CASE_TEMPLATE("every operation, on whole numbers", Family, SingleFamily, InProcessFamily,
                     TcpFamily, TcpRingFamily, TcpGatherFamily, SharedMemoryFamily, AutoFamily,
                     HierarchicalFamily<InProcessFamily>, HierarchicalFamily<TcpFamily>) {
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

  TEST_CASE_TEMPLATE("sums follow the numerics contract bit for bit", Family, InProcessFamily,
                     TcpFamily, TcpRingFamily, TcpGatherFamily, SharedMemoryFamily) {
    for (int size = 2; size <= Family::largest; ++size) {
      CAPTURE(Family::name);
      CAPTURE(size);
      const std::size_t count = 4 * block_elements + 4099;
      std::vector<std::vector<float>> floats;
      std::vector<std::vector<double>> doubles;
      std::vector<std::vector<double>> statuses;
      for (int rank = 0; rank < size; ++rank) {
        floats.push_back(random_numbers<float>(rank, count));
        doubles.push_back(random_numbers<double>(rank, count));
        statuses.push_back(random_numbers<double>(rank + 100, 7));
      }
      const auto float_sum = contract_sum(floats);
      const auto double_sum = contract_sum(doubles);
      const auto status_sum = contract_sum(statuses);
      Complaints complaints;
      Family::run(size, [&](auto& collective) {
        const auto rank = static_cast<std::size_t>(collective.rank());
        auto f = floats[rank];
        collective.all_reduce(std::span(f));
        complaints.unless(same_bits(f, float_sum), "float");
        auto d = doubles[rank];
        collective.all_reduce(std::span(d));
        complaints.unless(same_bits(d, double_sum), "double");
        f = floats[rank];
        auto status = statuses[rank];
        collective.all_reduce(std::span(status), std::span(f));
        complaints.unless(same_bits(f, float_sum), "float with status");
        complaints.unless(same_bits(status, status_sum), "status");
      });
      complaints.check();
    }
  }

  TEST_CASE_TEMPLATE("the two halves of an all-reduce make a whole one, bit for bit", Family,
                     TcpFamily, TcpGatherFamily, SharedMemoryFamily) {
    for (int size = 1; size <= Family::largest; ++size) {
      CAPTURE(size);
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, block_elements, 9 * block_elements + 4099}) {
        CAPTURE(count);
        std::vector<std::vector<float>> floats;
        for (int rank = 0; rank < size; ++rank)
          floats.push_back(random_numbers<float>(rank, count));
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

  TEST_CASE_TEMPLATE("all ranks of two levels hold the same bits, and two runs do", Family,
                     HierarchicalFamily<InProcessFamily>, HierarchicalFamily<TcpFamily>) {
    std::vector<float> first;
    for (int run = 0; run < 2; ++run) {
      std::vector<std::vector<float>> results(4);
      Family::run(4, [&](auto& collective) {
        auto values = random_numbers<float>(collective.rank(), 2 * block_elements + 5);
        collective.all_reduce(std::span(values));
        results[static_cast<std::size_t>(collective.rank())] = values;
      });
      for (const auto& result : results) CHECK(same_bits(result, results[0]));
      if (run == 0) first = results[0];
      CHECK(same_bits(results[0], first));
    }
  }

  TEST_CASE_TEMPLATE("NaN is the maximum, and integers wrap around", Family, InProcessFamily,
                     TcpFamily, SharedMemoryFamily) {
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

  TEST_CASE_TEMPLATE("wrong arguments are refused before anything is sent", Family, InProcessFamily,
                     TcpFamily, SharedMemoryFamily, HierarchicalFamily<InProcessFamily>) {
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

  TEST_CASE_TEMPLATE("what one rank reports, all others hear", Family, InProcessFamily, TcpFamily,
                     SharedMemoryFamily, HierarchicalFamily<InProcessFamily>,
                     HierarchicalFamily<TcpFamily>) {
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
}
