#include "lockstep/checkpoint/snapshot.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("snapshot file: what is saved is read again, with its bytes") {
  const TemporaryFolder folder;
  const std::string path = folder.path("deep/snapshot");
  CHECK_FALSE(ls::read_snapshot(path).has_value());
  ls::save_snapshot(path, full_state());
  const auto file = ls::read_snapshot(path);
  REQUIRE(file.has_value());
  CHECK(file->snapshot == full_state());
  CHECK(file->bytes == ls::encode_checkpoint(full_state()));
}

TEST_CASE("snapshot file: the former file goes, or is kept") {
  const TemporaryFolder folder;
  const std::string path = folder.path("snapshot"), previous = ls::previous_generation(path);
  ls::TrainingState newer = full_state();
  ++newer.iterations;
  ls::save_snapshot(path, full_state());
  ls::save_snapshot(path, newer);
  CHECK_FALSE(std::filesystem::exists(previous));
  ls::save_snapshot(path, full_state(), ls::FormerFile::kept);
  CHECK(ls::read_snapshot(previous)->snapshot == newer);
  CHECK(ls::read_snapshot(path)->snapshot == full_state());
}

TEST_CASE("snapshot file: damage, and the file of a far larger model, are refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path("snapshot");
  auto bytes = ls::encode_checkpoint(full_state());
  bytes[200] ^= std::byte{4};
  ls::write_file_atomically(path, bytes);
  CHECK_THROWS_AS((void)ls::read_snapshot(path), ls::DataError);
  std::filesystem::resize_file(path, std::uintmax_t{1} << 33);  // sparse
  CHECK_THROWS_AS((void)ls::read_snapshot(path, 88), ls::DataError);
}
