#include "lockstep/checkpoint/detail/snapshot_sections.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/detail/manifest_reader.hpp"
#include "lockstep/checkpoint/detail/manifest_writer.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep::detail;
using namespace lockstep_test;

namespace {

ls::TrainingState without_arrays(ls::TrainingState state) {
  state.parameters = {};
  state.state = {};
  state.slots = {};
  return state;
}

/// What write writes, read by read_sections.
template <class Write>
ls::TrainingState back(Write write) {
  std::vector<std::byte> bytes;
  {
    ManifestWriter writer(bytes);
    write(writer);
  }
  ManifestReader reader(bytes);
  ls::TrainingState state;
  read_sections(reader, state);
  reader.expect_end();
  return state;
}

}  // namespace

TEST_CASE("snapshot sections: every field but the arrays comes back") {
  const ls::TrainingState state = full_state();
  CHECK(back([&](auto& writer) { write_sections(writer, state); }) == without_arrays(state));
}

TEST_CASE("snapshot sections: 'model' and 'fit' have one record each") {
  const auto message = [](auto write) {
    return message_of<ls::DataError>([&] { (void)back(write); });
  };
  CHECK(contains(message([](auto& writer) { writer(std::uint64_t{0}); }),
                 "'model' and 'fit', got 0 and 0"));
  const auto two_records = [](auto& writer) {
    writer(std::uint64_t{1});
    writer(std::string("fit"));
    writer(std::vector<ls::State>(2));
  };
  CHECK(contains(message(two_records), "got 0 and 2"));
}
