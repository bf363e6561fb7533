#include "lockstep/network/branches.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/tensor_view.hpp"

namespace ls = lockstep;
namespace lsd = lockstep::detail;

namespace {

constexpr lsd::TensorSize wide{.features = 4}, narrow{.features = 3};

/// x itself, a branch of its own, and perhaps one that writes the sum.
std::array<lsd::Branch, 3> branches(bool writes_sum) {
  const auto scratch = [](std::size_t samples) { return 2 * samples; };
  return {lsd::Branch{.place = {.input = wide, .output = wide}, .computes = false},
          lsd::Branch{.place = {.input = wide, .output = narrow, .scratch = scratch}},
          lsd::Branch{.place = {.input = wide, .output = narrow}, .writes_sum = writes_sum}};
}

}  // namespace

TEST_CASE("branches: each output that is kept has an array, and the scratch follows them") {
  // 5 samples are padded to 16.
  const auto all = branches(false);
  CHECK(lsd::branch_outputs(all, 5) == (3 + 3) * 16);
  CHECK(lsd::branches_scratch(all, 5) == (3 + 3) * 16 + 10 + 16);  // (a row for a merged mask)
  std::vector<float> x(4 * 16), y(3 * 16), memory(lsd::branches_scratch(all, 5));
  const lsd::BranchArrays<float> arrays(all, ls::TensorView<const float>(x.data(), 5, 4, 16),
                                        ls::TensorView<const float>(y.data(), 5, 3, 16), memory, {},
                                        lsd::BranchUse::forward);
  CHECK(arrays.outputs[0].data() == x.data());
  CHECK(arrays.outputs[1].data() == memory.data());
  CHECK(arrays.outputs[2].data() == memory.data() + 3 * 16);
  CHECK(arrays.scratch[1].data() == memory.data() + 6 * 16);
  CHECK(arrays.scratch[1].size() == 10);
  CHECK(arrays.mask.data() == memory.data() + 6 * 16 + 10);
  CHECK(arrays.mask.size() == 16);
}

TEST_CASE("branches: one that writes the sum has the container's output for its own") {
  const auto all = branches(true);
  CHECK(lsd::branches_scratch(all, 5) == 3 * 16 + 10 + 16);
  std::vector<float> x(4 * 16), y(3 * 16), memory(lsd::branches_scratch(all, 5));
  const lsd::BranchArrays<float> arrays(all, ls::TensorView<const float>(x.data(), 5, 4, 16),
                                        ls::TensorView<const float>(y.data(), 5, 3, 16), memory, {},
                                        lsd::BranchUse::forward);
  CHECK(arrays.outputs[1].data() == memory.data());
  CHECK(arrays.outputs[2].data() == y.data());
  CHECK(arrays.scratch[1].data() == memory.data() + 3 * 16);
}

TEST_CASE("branches: an output that is kept in half the memory is whole in temporary memory") {
  constexpr lsd::KeptFormat format{
      [](std::size_t n, const float* from, float* to) { to[0] = from[n - 1]; },
      [](std::size_t n, const float* from, float* to) { to[n - 1] = from[0]; }};
  auto all = branches(false);
  all[1].place.kept = &format;
  CHECK(lsd::branch_outputs(all, 5) == 2 * 16 + 3 * 16);  // (1.5 * 16, rounded up)
  CHECK(lsd::first_branch_temporary(all, 5) == (4 + 4 + 3) * 16);
  std::vector<float> x(4 * 16), y(3 * 16), memory(lsd::branches_scratch(all, 5)),
      temporary(lsd::branches_temporary(all, 5));
  memory[0] = 7;
  const lsd::BranchArrays<float> arrays(all, ls::TensorView<const float>(x.data(), 5, 4, 16),
                                        ls::TensorView<const float>(y.data(), 5, 3, 16), memory,
                                        temporary, lsd::BranchUse::backward);
  CHECK(arrays.packed[1] == memory.data());
  CHECK(arrays.outputs[1].data() == temporary.data() + 8 * 16);
  CHECK(arrays.outputs[1].data()[3 * 16 - 1] == 7);
  CHECK(arrays.packed[2] == nullptr);
  CHECK(arrays.outputs[2].data() == memory.data() + 2 * 16);
  // Forward, and a look at all outputs, have it where backward has gradients.
  const auto in = [&](lsd::BranchUse use) {
    return lsd::BranchArrays<float>(all, ls::TensorView<const float>(x.data(), 5, 4, 16),
                                    ls::TensorView<const float>(y.data(), 5, 3, 16), memory,
                                    temporary, use)
        .outputs[1]
        .data();
  };
  CHECK(in(lsd::BranchUse::forward) == temporary.data());
  CHECK(temporary[3 * 16 - 1] == 0);
  CHECK(in(lsd::BranchUse::visit) == temporary.data());
  CHECK(temporary[3 * 16 - 1] == 7);
  // Backward need not have it, nor a second gradient of x where the last branch alone computes.
  all[1].reads_output = false;
  CHECK(lsd::first_branch_temporary(all, 5) == (4 + 4) * 16);
  all[2].computes = false;
  CHECK(lsd::first_branch_temporary(all, 5) == (4 + 4) * 16);
  const auto two = std::span(all).first(2);
  CHECK(lsd::first_branch_temporary(two, 5) == 4 * 16);
  all[1].place.throws_gradient = true;
  CHECK(lsd::first_branch_temporary(two, 5) == (4 + 4) * 16);
}
