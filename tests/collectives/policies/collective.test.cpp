// One suite for every collective of the library.
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "collectives/suite.hpp"
#include "lockstep/collectives/policies/single.hpp"

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

}  // namespace

TEST_SUITE("collective") {
  TEST_CASE_TEMPLATE("every operation, on whole numbers", Family, SingleFamily, InProcessFamily,
                     TcpFamily, TcpRingFamily, TcpGatherFamily, SharedMemoryFamily, AutoFamily,
                     HierarchicalFamily<InProcessFamily>, HierarchicalFamily<TcpFamily>) {
    every_operation<Family>();
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
    halves_make_a_whole<Family>();
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
    nan_is_the_maximum<Family>();
  }

  TEST_CASE_TEMPLATE("wrong arguments are refused before anything is sent", Family, InProcessFamily,
                     TcpFamily, SharedMemoryFamily, HierarchicalFamily<InProcessFamily>) {
    wrong_arguments_are_refused<Family>();
  }

  TEST_CASE_TEMPLATE("what one rank reports, all others hear", Family, InProcessFamily, TcpFamily,
                     SharedMemoryFamily, HierarchicalFamily<InProcessFamily>,
                     HierarchicalFamily<TcpFamily>) {
    all_hear_what_one_reports<Family>();
  }
}
