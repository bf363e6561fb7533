#include "lockstep/losses/labels.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>
#include <vector>

#include "lockstep/core/error.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;

TEST_CASE("BadTarget is an error of the data") {
  static_assert(std::is_base_of_v<lockstep::DataError, lockstep::BadTarget>);
  CHECK(lockstep::BadTarget("", 3, "").row() == 3);
}

TEST_CASE_TEMPLATE("labels: whole numbers below the number of classes", T, float, double) {
  using lockstep_test::Tensor;
  const auto check = [](double label) {
    const Tensor<T> labels(3, 1, std::vector<double>{0, 4, label});
    ls::detail::check_labels<T>("the loss", labels.view(), 5);
  };
  check(3);
  for (const double bad : {-1.0, 5.0, 2.5, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(check(bad), ls::BadTarget);
  }
  CHECK_THROWS_WITH_AS(check(5),
                       "the loss: the label of row 2 of the batch is 5; expected a whole number "
                       "from 0 to 4 (the model "
                       "has 5 outputs; those of a Vocabulary begin at 1)",
                       ls::BadTarget);
}
