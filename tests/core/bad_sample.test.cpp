#include "lockstep/core/bad_sample.hpp"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("BadSample: names the row, or the sample in its place") {
  const lockstep::BadSample bad("loss: the label of ", 3, " is 10");
  CHECK(bad.what() == std::string("loss: the label of row 3 of the batch is 10"));
  CHECK(bad.row() == 3);
  CHECK(bad.of_sample("sample 1234").what() == std::string("loss: the label of sample 1234 is 10"));
  CHECK(bad.exit_code() == lockstep::ExitCode::failure);
}
