#include "lockstep/training/worker_data.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/files.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::DistributionContext second_of_two{.num_workers = 2, .worker = 1};

ls::AnyDataset with_policy(ls::AutoShardPolicy policy, std::int64_t batch = 4) {
  return ls::AnyDataset(
      numbers(10).with_options({.auto_shard_policy = policy}).shuffle(10).batch(batch));
}

std::string signature(const ls::AnyDataset& data, std::optional<ls::AutoShardPolicy> policy = {}) {
  return ls::detail::WorkerData("fit", data, second_of_two, policy).signature("data");
}

}  // namespace

TEST_CASE("WorkerData: what must be equal depends on the policy") {
  const std::string data = signature(with_policy(ls::AutoShardPolicy::automatic));
  const std::string expected =
      "data, sharding: data\ndata, global batch size: 4\ndata, samples in the source: 10\n"
      "data, pipeline: from_tensor_slices -> shuffle(10) -> batch(4)\ndata, batches in a pass: 3\n"
      "data, checksum of 10 samples: ";
  CHECK(data.substr(0, expected.size()) == expected);
  CHECK(data.size() == expected.size() + 9);
  CHECK(signature(with_policy(ls::AutoShardPolicy::off)) ==
        "data, sharding: off\ndata, global batch size: 4\n");
  CHECK(signature(with_policy(ls::AutoShardPolicy::off), ls::AutoShardPolicy::data) == data);
  CHECK(ls::detail::WorkerData("fit", with_policy(ls::AutoShardPolicy::off), {})
            .signature("data")
            .empty());  // alone
  CHECK(contains(signature(ls::AnyDataset(numbers(4).repeat().batch(1))),
                 "batches in a pass: without end"));
}

TEST_CASE("WorkerData: with files it opens its own alone, and only to learn a shape or a length") {
  std::vector<std::string> opened;
  const ls::AnyDataset files(ls::from_files({"a", "b", "c", "d"}, [&](const std::string& name) {
                               opened.push_back(name);
                               return ls::Tensor<float>(std::vector<float>(24), {6, 2, 2});
                             }).batch(4));
  const ls::detail::WorkerData data("fit", files, second_of_two);
  CHECK(data.may_differ());
  CHECK(data.signature("data") ==
        "data, sharding: file\ndata, global batch size: 4\ndata, pipeline: from_files(4) -> "
        "batch(4)\n");
  CHECK(opened.empty());
  CHECK(data.part().sample_shape() == std::vector<std::size_t>{2, 2});
  CHECK(opened == std::vector<std::string>{"b"});
  CHECK(data.steps() == 6);  // 12 samples in batches of 2
  CHECK(opened == std::vector<std::string>{"b", "d"});

  const ls::detail::WorkerData all("predict", files, second_of_two, ls::AutoShardPolicy::data);
  CHECK_FALSE(all.may_differ());
  CHECK(all.steps() == 6);  // 24 samples in batches of 4
  CHECK(opened.size() == 4);
}

TEST_CASE("WorkerData: the steps of a pass") {
  CHECK(
      ls::detail::WorkerData("fit", with_policy(ls::AutoShardPolicy::off), second_of_two).steps() ==
      6);
  CHECK(ls::detail::WorkerData("fit", with_policy(ls::AutoShardPolicy::data), second_of_two)
            .steps() == 3);
  CHECK_FALSE(
      ls::detail::WorkerData("fit", with_policy(ls::AutoShardPolicy::off), {}).may_differ());
}

TEST_CASE("WorkerData: what cannot be used is refused") {
  CHECK(message_of<ls::ConfigurationError>([] {
          ls::detail::WorkerData("fit", ls::AnyDataset(), {});
        }) == "fit: this AnyDataset holds no dataset");
  CHECK(contains(message_of<ls::ConfigurationError>([] {
                   ls::detail::WorkerData("fit", with_policy(ls::AutoShardPolicy::file),
                                          second_of_two);
                 }),
                 "the dataset has 0 files"));
}
