#include "lockstep/checkpoint/checkpoint_folder.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("training end: marked, removed, and marked again, in a folder that need not exist") {
  const TemporaryFolder folder;
  const std::string directory = folder.path("made");
  CHECK_FALSE(ls::training_has_ended(directory));
  ls::mark_training_begun(directory);
  for (int run = 0; run < 2; ++run) {
    ls::mark_training_ended(directory);
    ls::mark_training_ended(directory);
    CHECK(ls::training_has_ended(directory));
    ls::mark_training_begun(directory);
    ls::mark_training_begun(directory);
    CHECK_FALSE(ls::training_has_ended(directory));
  }
}

TEST_CASE("training end: a folder that cannot be written to is an error that names it") {
  CHECK(
      contains(message_of<ls::Error>([] { ls::mark_training_ended("/dev/null/x"); }), "/dev/null"));
  CHECK_FALSE(ls::training_has_ended("/dev/null/x"));
}
