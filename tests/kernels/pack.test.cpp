#include "lockstep/kernels/pack.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

namespace {

template <class T>
struct Results {
  T larger, smaller, selected, of_nan, root;
};

template <class T>
Results<T> results(T a, T b) {
  const Array<T> in(32), out(32);
  for (std::size_t i = 0; i < 16; ++i) {
    in[i] = a;
    in[16 + i] = b;
  }
  Results<T> all{};
  kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
    using P = kernels::Pack<T, Isa::vector_bytes>;
    const P x(in.data()), y(in.data() + 16), nan(std::numeric_limits<T>::quiet_NaN());
    const auto first = [&](const P& pack) LOCKSTEP_KERNEL_LAMBDA {
      pack.store(out.data());
      for (std::size_t i = 1; i < P::size; ++i)
        if (out[i] != out[0]) out[0] = T(-99);
      return out[0];
    };
    all = {first(max(x, y)), first(min(x, y)), first(select((x < y) & !(x == y), P(7), P(9))),
           first(max(nan, y)), first(sqrt(abs(x * x - y * 2) + 1))};
  });
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("pack: reads as the scalar formula, in every lane", T, float, double) {
  for_each_instruction_set([] {
    const Results<T> r = results<T>(T(-3), T(5));
    CHECK(r.larger == T(5));
    CHECK(r.smaller == T(-3));
    CHECK(r.selected == T(7));
    CHECK(r.of_nan == T(5));
    CHECK(r.root == static_cast<T>(std::sqrt(T(2))));
    CHECK(results<T>(T(5), T(5)).selected == T(9));
  });
}
