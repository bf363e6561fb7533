#include "lockstep/step/replica_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Replica = ls::detail::ReplicaState<TinyNet, float, 1>;

ls::Buffer allocate(std::size_t bytes) { return ls::Buffer(bytes); }

template <class T>
void check_view(const ls::TensorView<T>& view, std::size_t samples, std::size_t features, std::size_t stride) {
  CHECK(view.samples() == samples);
  CHECK(view.features() == features);
  CHECK(view.stride() == stride);
  CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % 64 == 0);
}

}  // namespace

TEST_CASE("ReplicaState: views have the sizes of model and batch, do not overlap, and are aligned") {
  Replica replica(allocate);
  for (const std::size_t samples : {5u, 16u, 17u, 3u}) {
    CAPTURE(samples);
    const std::size_t stride = ls::padded_batch(samples);
    replica.resize(samples);
    check_view(replica.x(), samples, 4, stride);
    check_view(replica.targets(), samples, 1, stride);
    check_view(replica.predictions(), samples, 3, stride);
    check_view(replica.prediction_gradient(), samples, 3, stride);
    CHECK(replica.x().data() + 4 * stride <= replica.targets().data());
    CHECK(replica.targets().data() + stride <= replica.predictions().data());
    CHECK(replica.predictions().data() + 3 * stride <= replica.prediction_gradient().data());
  }
}

TEST_CASE("ReplicaState: a batch that is no larger than one before takes no new memory") {
  Replica replica(allocate);
  replica.resize(40);
  const float* const data = replica.x().data();
  for (const std::size_t samples : {1u, 40u, 0u, 33u, 48u}) {
    replica.resize(samples);
    CHECK(replica.x().data() == data);
  }
  CHECK(replica.x().samples() == 48);  // the same padded batch
}

TEST_CASE("ReplicaState: the first batch may be empty") {
  Replica replica(allocate);
  replica.resize(0);
  CHECK(replica.x().samples() == 0);
  const ls::StepContext context{.training = true};
  const std::array<std::vector<float>, 4> values{std::vector<float>(24), std::vector<float>(6), std::vector<float>(18),
                                                 std::vector<float>(3)};
  std::vector<std::span<float>> weights;
  for (const auto& value : values) weights.emplace_back(const_cast<float*>(value.data()), value.size());
  for (const auto slice : replica.gradients().slices())
    for (float& value : slice) value = 9;
  replica.forward(context, weights);
  replica.backward(context, weights);
  for (const auto slice : replica.gradients().slices())
    for (const float value : slice) CHECK(value == 0);
}

TEST_CASE("ReplicaState: the gradients' memory comes from the function that is given, once") {
  std::vector<std::size_t> asked;
  Replica replica([&](std::size_t bytes) {
    asked.push_back(bytes);
    return ls::Buffer(bytes);
  });
  replica.resize(100);
  CHECK(asked == std::vector<std::size_t>{replica.gradients().values().size_bytes()});
  CHECK(replica.gradients().slices().size() == 4);
  CHECK(replica.state().values().empty());
}
