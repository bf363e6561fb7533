#include "lockstep/kernels/sequence_layout.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace kernels = lockstep::kernels;

TEST_CASE("sequence layout: there and back, the padding becomes zero") {
  for (const std::size_t samples : {0U, 1U, 5U, 33U}) {
    const kernels::SequenceLayout size{.samples = samples,
                                       .positions = 19,
                                       .features = 3,
                                       .row_stride = (samples * 19 + 15) / 16 * 16,
                                       .sample_stride = (samples + 15) / 16 * 16};
    std::vector<float> by_samples(19 * 3 * size.sample_stride), by_rows(3 * size.row_stride, -1),
        back(by_samples);
    for (std::size_t f = 0; f < 19 * 3; ++f)
      for (std::size_t s = 0; s < samples; ++s)
        by_samples[f * size.sample_stride + s] = static_cast<float>(f * 100 + s + 1);
    kernels::samples_to_rows(size, by_samples.data(), by_rows.data());
    for (std::size_t f = 0; f < 3; ++f)
      for (std::size_t row = 0; row < size.row_stride; ++row) {
        const std::size_t s = row / 19, t = row % 19;
        const float expected = s < samples ? by_samples[(t * 3 + f) * size.sample_stride + s] : 0;
        REQUIRE(by_rows[f * size.row_stride + row] == expected);
      }
    for (float& value : back) value = -1;
    kernels::rows_to_samples(size, by_rows.data(), back.data());
    CHECK(back == by_samples);
  }
}
