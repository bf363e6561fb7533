#include "lockstep/step/model_state.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/network/sequential.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using State = ls::detail::ModelState<TinyNet, float>;

void fill(const State& state, std::uint64_t seed) {
  ls::detail::initialize<float>(State::variables, state.parameters().slices(), ls::RandomKey(seed));
}

}  // namespace

TEST_CASE("initialize: by seed and place alone; no initializer means zero") {
  const State a(0), b(2), c(0);
  fill(a, 1);
  fill(b, 1);
  fill(c, 2);
  CHECK(a.parameters_crc32c() == b.parameters_crc32c());
  CHECK(a.parameters_crc32c() != c.parameters_crc32c());
  const auto slices = a.parameters().slices();
  CHECK(slices[0][0] != slices[2][0]);  // each variable has a stream of its own
  for (const float value : slices[1]) CHECK(value == 0);
  for (const float value : slices[0]) CHECK(std::abs(value) <= 0.5);
}

TEST_CASE("parameters_crc32c: every bit counts, and the zeros between the arrays do not") {
  const State state(0);
  fill(state, 1);
  const std::uint32_t before = state.parameters_crc32c();
  for (const auto slice : state.parameters().slices())
    for (float& value : slice) {
      const float kept = value;
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1);
      CHECK(state.parameters_crc32c() != before);
      value = kept;
    }
  state.parameters().values()[3 + 1] = 5;  // behind the last bias of 3
  CHECK(state.parameters_crc32c() == before);
}

TEST_CASE("ModelState: save and restore bring everything back") {
  State state(2), other(2);
  fill(state, 1);
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto slice : state.slots()[i].slices())
      for (float& value : slice) value = static_cast<float>(i) + 0.5F;
  state.iterations = 12;
  state.learning_rate = 0.125;
  state.seed = ~std::uint64_t{0};
  state.next_pass = 4;
  ls::TrainingState saved, again;
  state.save(saved);
  CHECK(saved.scalar == "float32");
  REQUIRE(saved.slots.size() == 8);
  CHECK(saved.slots[5].name == "user_dense/bias/slot_1");
  other.restore(saved);
  other.save(again);
  CHECK(again == saved);
  CHECK(other.parameters_crc32c() == state.parameters_crc32c());
  CHECK(other.next_pass == 4);
  saved.data_position = 1;  // of a pass that was begun
  other.restore(saved);
  CHECK(other.next_pass == 5);
}

TEST_CASE("ModelState: what does not fit is refused, and nothing is changed") {
  State state(1);
  fill(state, 1);
  ls::TrainingState saved;
  state.save(saved);
  saved.iterations = 99;
  saved.seed = 99;
  for (ls::SavedArray& array : saved.parameters)
    for (std::byte& byte : array.bytes) byte = std::byte{1};
  ls::TrainingState before;
  state.save(before);
  const auto refused = [&](auto change) {
    ls::TrainingState changed = saved;
    change(changed);
    CHECK_THROWS_AS(state.restore(changed), ls::ConfigurationError);
    ls::TrainingState now;
    state.save(now);
    CHECK(now == before);
  };
  refused([](auto& s) { s.scalar = "float64"; });
  refused([](auto& s) { s.parameters.pop_back(); });
  refused([](auto& s) { s.parameters.push_back(s.parameters.back()); });
  refused([](auto& s) { s.slots.pop_back(); });
  refused([](auto& s) { s.parameters.back().extents = {1}; });
  refused([](auto& s) { s.slots.back().bytes.pop_back(); });
}
