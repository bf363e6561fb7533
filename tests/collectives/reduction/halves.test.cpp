#include "lockstep/collectives/reduction/combine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "lockstep/core/half.hpp"

using namespace lockstep;
using namespace lockstep::detail;

namespace {

template <class Format>
void check(Wire wire) {
  for (const std::size_t count : {0u, 1u, 63u, 64u, 100u, 200u}) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i)));
    std::vector<std::uint16_t> halves(count);
    encode(wire, halves.data(), values.data(), count);
    std::vector<float> decoded(count), sums(count, 2.0f), rounded = values;
    decode(wire, decoded.data(), halves.data(), count);
    decode_add(wire, sums.data(), halves.data(), count);
    round_to_wire(wire, rounded.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK_EQ(halves[i], Format::encode(values[i]));
      CHECK_EQ(decoded[i], Format::decode(halves[i]));
      CHECK_EQ(sums[i], decoded[i] + 2.0f);
      CHECK_EQ(rounded[i], decoded[i]);
    }
  }
}

}  // namespace

TEST_CASE("halves: arrays of any length are those of their elements") {
  check<Bfloat16>(Wire::bfloat16);
  check<Float16>(Wire::float16);
}
