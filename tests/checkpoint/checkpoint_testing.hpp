// A saved state that uses everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/training_state.hpp"

namespace lockstep_test {

inline std::vector<std::byte> some_bytes(std::size_t count, unsigned first = 1) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + 37 * i);
  return bytes;
}

/// Arrays of several ranks and both types, one of them empty.
inline std::vector<lockstep::SavedArray> some_arrays() {
  return {{.name = "dense/kernel", .extents = {2, 3}, .bytes = some_bytes(24)},
          {.name = "dense/bias", .scalar = "float64", .extents = {3}, .bytes = some_bytes(24, 9)},
          {.name = "empty", .extents = {0, 5}, .bytes = {}},
          {.name = "step", .extents = {}, .bytes = some_bytes(4, 77)}};
}

inline lockstep::TrainingState full_state() {
  lockstep::State callback;
  callback.put("whole", std::int64_t{-5});
  callback.put("largest", std::numeric_limits<std::int64_t>::max());
  callback.put("real", 0.1);
  callback.put("infinite", -std::numeric_limits<double>::infinity());
  callback.put("text", std::string("zero \0 inside", 13));
  callback.put("empty text", std::string());
  callback.put("whole list", std::vector<std::int64_t>{1, -2, 3});
  callback.put("real list", std::vector<double>{0.5, -0.0, 1e300});
  callback.put("empty list", std::vector<double>{});
  lockstep::TrainingState state;
  state.scalar = "float32";
  state.signature = "input: (4)\noutput: (3)";
  state.parameters = {{.name = "dense/kernel", .extents = {2, 3}, .bytes = some_bytes(24)},
                      {.name = "dense/bias", .extents = {3}, .bytes = some_bytes(12, 9)}};
  state.state = {
      {.name = "batch_normalization/moving_mean", .extents = {}, .bytes = some_bytes(4)}};
  state.slots = {{.name = "dense/kernel/slot_0", .extents = {2, 3}, .bytes = some_bytes(24, 77)}};
  state.iterations = 1'000'000'000'000;
  state.learning_rate = 0.1;
  state.seed = 0xFEDC'BA98'7654'3210;
  state.fit = 1;
  state.epoch = 3;
  state.step = 17;
  state.data_iteration = 2;
  state.data_position = 40;
  state.world_size = 4;
  state.running = {1.5, 2.5, -1};
  state.global_batch = 32;
  state.is_epoch_open = true;
  state.callbacks = {callback, lockstep::State{}};
  lockstep::State object;
  object.put("count", 7);
  state.objects = {object};
  return state;
}

}  // namespace lockstep_test
