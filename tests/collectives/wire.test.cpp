#include "lockstep/collectives/wire.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;

TEST_SUITE("wire") {
  TEST_CASE("arrays") {
    std::vector<float> values;
    for (int i = 0; i < 100; ++i) values.push_back(std::sin(static_cast<float>(i)));
    std::vector<std::uint16_t> halves(values.size());
    encode<Wire::float16>(halves.data(), values.data(), values.size());
    std::vector<float> decoded(values.size()), sums(values.size(), 2.0f), rounded_values = values;
    decode<Wire::float16>(decoded.data(), halves.data(), values.size());
    decode_add<Wire::float16>(sums.data(), halves.data(), values.size());
    round_to_wire<Wire::float16>(rounded_values.data(), values.size());
    CHECK(decoded == rounded_values);
    for (std::size_t i = 0; i < values.size(); ++i) CHECK_EQ(sums[i], decoded[i] + 2.0f);
  }
}
