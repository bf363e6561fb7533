// What a program can do with lockstep/local.hpp as its only header.
#include <doctest/doctest.h>
#include <lockstep/local.hpp>

#include <Eigen/Core>
#include <vector>

namespace ls = lockstep;

TEST_SUITE("local") {
  TEST_CASE("a program with run trains") {
    using Net = ls::Sequential<ls::Input<4>, ls::Dense<3>>;
    char name[] = "program";
    char* arguments[] = {name, nullptr};
    double loss = -1;
    const int code = ls::run(1, arguments, [&] {
      ls::OneDeviceStrategy strategy;
      auto model = ls::compile<Net>(
          strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
      const Eigen::MatrixXf x = Eigen::MatrixXf::Random(8, 4);
      loss = model.fit(x, std::vector<int>(8, 1), {.verbose = 0})["loss"].at(0);
    });
    CHECK(code == 0);
    CHECK(loss > 0);
  }

  TEST_CASE("run makes errors exit codes") {
    char name[] = "program";
    char* arguments[] = {name, nullptr};
    CHECK(ls::run(1, arguments, [] { throw ls::ConfigurationError("wrong"); }) == 2);
  }
}
