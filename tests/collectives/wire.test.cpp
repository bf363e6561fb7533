#include "lockstep/collectives/wire.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace lockstep;
using namespace lockstep::detail;

namespace {

// What rounding to the nearest number with `bits` bits of precision, ties to even, gives for a number in the normal range.
float rounded(float value, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits));
}

template <Wire wire>
float round_trip(float value) {
  return WireFormat<wire>::decode(WireFormat<wire>::encode(value));
}

}  // namespace

TEST_SUITE("wire") {
  TEST_CASE("every half-precision number survives") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float b = WireFormat<Wire::bfloat16>::decode(half);
      const float f = WireFormat<Wire::float16>::decode(half);
      if (b == b) CHECK_EQ(WireFormat<Wire::bfloat16>::encode(b), half);
      if (f == f) CHECK_EQ(WireFormat<Wire::float16>::encode(f), half);
      if (b != b) CHECK(std::isnan(round_trip<Wire::bfloat16>(b)));
      if (f != f) CHECK(std::isnan(round_trip<Wire::float16>(f)));
    }
  }

  TEST_CASE("numbers in between go to the nearest, ties to even") {
    for (std::uint32_t bits = 0x3880'0000; bits < 0x4780'0000; bits += 12343) {  // 2^-14 to 2^16
      for (const float value : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
        CHECK_EQ(round_trip<Wire::bfloat16>(value), rounded(value, 8));
        if (std::fabs(value) < 65520) CHECK_EQ(round_trip<Wire::float16>(value), rounded(value, 11));
      }
    }
    CHECK(round_trip<Wire::float16>(1.0f + 1.0f / 2048) == 1.0f);               // a tie
    CHECK(round_trip<Wire::float16>(1.0f + 3.0f / 2048) == 1.0f + 1.0f / 512);  // the other
    CHECK(round_trip<Wire::bfloat16>(1.0f + 1.0f / 256) == 1.0f);
    CHECK(round_trip<Wire::bfloat16>(1.0f + 3.0f / 256) == 1.0f + 1.0f / 64);
  }

  TEST_CASE("the ends of the ranges") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(round_trip<Wire::float16>(65504.0f) == 65504.0f);
    CHECK(round_trip<Wire::float16>(65519.9f) == 65504.0f);
    CHECK(round_trip<Wire::float16>(65520.0f) == infinity);
    CHECK(round_trip<Wire::float16>(-1e20f) == -infinity);
    CHECK(round_trip<Wire::float16>(std::ldexp(1.0f, -24)) == std::ldexp(1.0f, -24));  // the smallest
    CHECK(round_trip<Wire::float16>(std::ldexp(1.0f, -26)) == 0.0f);
    CHECK(round_trip<Wire::float16>(std::ldexp(1.5f, -24)) == std::ldexp(1.0f, -23));  // a tie
    CHECK(round_trip<Wire::bfloat16>(infinity) == infinity);
    CHECK(round_trip<Wire::bfloat16>(std::numeric_limits<float>::max()) == infinity);
    CHECK(std::signbit(round_trip<Wire::bfloat16>(-0.0f)));
    CHECK(std::signbit(round_trip<Wire::float16>(-0.0f)));
  }

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
