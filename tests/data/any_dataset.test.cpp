#include "lockstep/data/any_dataset.hpp"

#include <doctest/doctest.h>

#include <array>
#include <utility>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "support/model_testing.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
using lockstep_test::RowDataset;
using lockstep_test::Tensor;
using lockstep_test::TinyData;

namespace {

std::vector<std::int64_t> indices(const ls::AnyDataset& data) {
  return {data.sample_indices().begin(), data.sample_indices().end()};
}

/// Has files.
struct FileData : RowDataset {
  using RowDataset::RowDataset;
  int* sharded = nullptr;
  [[nodiscard]] ls::AutoShardPolicy auto_shard_policy() const { return ls::AutoShardPolicy::file; }
  [[nodiscard]] std::int64_t num_files() const { return 5; }
  void shard_files(int num_shards, int index) { *sharded = 10 * num_shards + index; }
};

}  // namespace

TEST_CASE("AnyDataset: an empty one converts to false, also after a copy and a move from") {
  ls::AnyDataset none;
  CHECK_FALSE(none);
  const ls::AnyDataset copy(none);
  CHECK_FALSE(copy);
  ls::AnyDataset data(RowDataset(TinyData(5), 2));
  CHECK(data);
  const ls::AnyDataset moved(std::move(data));
  CHECK(moved);
  CHECK_FALSE(data);  // NOLINT(bugprone-use-after-move): it is specified
  none = moved;
  CHECK(none);
  none = ls::AnyDataset();
  CHECK_FALSE(none);
}

TEST_CASE("AnyDataset: passes everything on") {
  RowDataset rows(TinyData(5), 2);
  rows.reported_cardinality = ls::unknown_cardinality;
  ls::AnyDataset data(rows);
  CHECK(data.sample_size() == 4);
  CHECK(data.target_size() == 1);
  CHECK(data.cardinality() == ls::unknown_cardinality);
  data.begin({.seed = 1, .number = 0});
  CHECK(data.position() == 0);
  CHECK(data.next() == 2);
  CHECK(data.next() == 2);
  CHECK(indices(data) == std::vector<std::int64_t>{2, 3});
  CHECK(data.next() == 1);
  CHECK(data.position() == 3);
  CHECK(data.next() == 0);
  CHECK(data.next() == 0);
  data.seek(1);
  CHECK(data.position() == 1);
  CHECK(data.next() == 2);
  CHECK(indices(data) == std::vector<std::int64_t>{2, 3});
}

TEST_CASE_TEMPLATE("AnyDataset: reads as float and as double", T, float, double) {
  const TinyData tiny(5);
  ls::AnyDataset data(RowDataset(tiny, 3));
  data.begin({});
  CHECK(data.next() == 3);
  const std::array<std::size_t, 2> positions{2, 0};
  const Tensor<T> x(2, 4), y(2, 1);
  data.read(positions, x.view(), y.view());
  for (std::size_t f = 0; f < 4; ++f) {
    CHECK(x(0, f) == static_cast<T>(tiny.x(2, static_cast<Eigen::Index>(f))));
    CHECK(x(1, f) == static_cast<T>(tiny.x(0, static_cast<Eigen::Index>(f))));
  }
  CHECK(y(0, 0) == static_cast<T>(tiny.y[2]));
  CHECK(y(1, 0) == static_cast<T>(tiny.y[0]));
  data.read(positions, x.view(), ls::TensorView<T>());  // no targets wanted
}

TEST_CASE("AnyDataset: copies are independent") {
  ls::AnyDataset data(RowDataset(TinyData(5), 2));
  data.begin({});
  CHECK(data.next() == 2);
  ls::AnyDataset copy(data), assigned;
  assigned = data;
  for (ls::AnyDataset* other : {&copy, &assigned}) {
    CHECK(other->position() == 1);
    CHECK(other->next() == 2);
    CHECK(indices(*other) == std::vector<std::int64_t>{2, 3});
    CHECK(other->next() == 1);
  }
  CHECK(data.position() == 1);
  CHECK(indices(data) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("AnyDataset: a copy of an AnyDataset is no AnyDataset of an AnyDataset") {
  const ls::AnyDataset data(RowDataset(TinyData(5), 2));
  ls::AnyDataset lvalue(data);
  ls::AnyDataset mutable_copy(lvalue);
  CHECK(mutable_copy.cardinality() == 3);
}

TEST_CASE("AnyDataset: files and shard policy are passed on, and have defaults") {
  const ls::AnyDataset plain(RowDataset(TinyData(5), 2));
  CHECK(plain.auto_shard_policy() == ls::AutoShardPolicy::automatic);
  CHECK(plain.num_files() == 0);

  int sharded = 0;
  FileData files(TinyData(5), 2);
  files.sharded = &sharded;
  ls::AnyDataset data(files);
  CHECK(data.auto_shard_policy() == ls::AutoShardPolicy::file);
  CHECK(data.num_files() == 5);
  data.shard_files(4, 3);
  CHECK(sharded == 43);
}

TEST_CASE("AnyDataset: holds a pipeline") {
  const ls::AnyDataset data(
      ls::from_tensor_slices(std::vector<float>{1, 2, 3}, std::vector<int>{4, 5, 6})
          .repeat()
          .batch(2));
  CHECK(data.cardinality() == ls::infinite_cardinality);
  CHECK(data.sample_size() == 1);
}

TEST_CASE(
    "AnyDataset: shape, description, fingerprint and names are passed on, and have defaults") {
  const ls::AnyDataset plain(RowDataset(TinyData(5), 2));
  ls::PipelineDescription description;
  plain.describe(description);
  CHECK(description.text.empty());
  CHECK(plain.sample_shape() == std::vector<std::size_t>{4});
  CHECK(plain.fingerprint().samples == ls::unknown_cardinality);
  CHECK(plain.sample_name(3) == "sample 3");

  const ls::AnyDataset images(
      ls::from_tensor_slices(ls::Tensor<float>(std::vector<float>(30), {5, 2, 3}))
          .shuffle(5)
          .batch(2));
  images.describe(description);
  CHECK(description.text == "from_tensor_slices -> shuffle(5) -> batch(2)");
  CHECK(description.batch_size == 2);
  CHECK(images.sample_shape() == std::vector<std::size_t>{2, 3});
  CHECK(images.fingerprint().samples == 5);
  CHECK(images.fingerprint().checked == 5);

  struct Wrong : RowDataset {
    using RowDataset::RowDataset;
    [[nodiscard]] std::vector<std::size_t> sample_shape() const { return {2, 3}; }
  };
  CHECK(ls::AnyDataset(Wrong(TinyData(5), 2)).sample_shape() ==
        std::vector<std::size_t>{4});  // sample_size counts
}
