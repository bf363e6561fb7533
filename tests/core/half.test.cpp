#include "lockstep/core/half.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

using namespace lockstep::detail;

namespace {

// What rounding to the nearest number with `bits` bits of precision, ties to even, gives for a
// number in the normal range.
float rounded(float value, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits));
}

template <class Half>
float round_trip(float value) {
  return Half::decode(Half::encode(value));
}

}  // namespace

TEST_SUITE("half") {
  TEST_CASE("every half-precision number survives") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float b = Bfloat16::decode(half);
      const float f = Float16::decode(half);
      if (b == b) CHECK_EQ(Bfloat16::encode(b), half);
      if (f == f) CHECK_EQ(Float16::encode(f), half);
      if (b != b) CHECK(std::isnan(round_trip<Bfloat16>(b)));
      if (f != f) CHECK(std::isnan(round_trip<Float16>(f)));
    }
  }

  TEST_CASE("numbers in between go to the nearest, ties to even") {
    for (std::uint32_t bits = 0x3880'0000; bits < 0x4780'0000; bits += 12343) {  // 2^-14 to 2^16
      for (const float value : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
        CHECK_EQ(round_trip<Bfloat16>(value), rounded(value, 8));
        if (std::fabs(value) < 65520) CHECK_EQ(round_trip<Float16>(value), rounded(value, 11));
      }
    }
    CHECK(round_trip<Float16>(1.0f + 1.0f / 2048) == 1.0f);               // a tie
    CHECK(round_trip<Float16>(1.0f + 3.0f / 2048) == 1.0f + 1.0f / 512);  // the other
    CHECK(round_trip<Bfloat16>(1.0f + 1.0f / 256) == 1.0f);
    CHECK(round_trip<Bfloat16>(1.0f + 3.0f / 256) == 1.0f + 1.0f / 64);
  }

  TEST_CASE("the ends of the ranges") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(round_trip<Float16>(65504.0f) == 65504.0f);
    CHECK(round_trip<Float16>(65519.9f) == 65504.0f);
    CHECK(round_trip<Float16>(65520.0f) == infinity);
    CHECK(round_trip<Float16>(-1e20f) == -infinity);
    CHECK(round_trip<Float16>(std::ldexp(1.0f, -24)) == std::ldexp(1.0f, -24));  // the smallest
    CHECK(round_trip<Float16>(std::ldexp(1.0f, -26)) == 0.0f);
    CHECK(round_trip<Float16>(std::ldexp(1.5f, -24)) == std::ldexp(1.0f, -23));  // a tie
    CHECK(round_trip<Bfloat16>(infinity) == infinity);
    CHECK(round_trip<Bfloat16>(std::numeric_limits<float>::max()) == infinity);
    CHECK(std::signbit(round_trip<Bfloat16>(-0.0f)));
    CHECK(std::signbit(round_trip<Float16>(-0.0f)));
  }
}
