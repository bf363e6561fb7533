// A struct of golden values of a layer over sequences, as a case.
#pragma once

#include "support/golden_sequences.hpp"

namespace lockstep_test {

/// `Values` has x, dy, y, dx, for masked ones mask, and for each variable in order w0 and g0, w1
/// and g1, ...
template <class Values>
GoldenSequences golden_case(std::size_t samples) {
  GoldenSequences c{samples, Values::x, Values::y, Values::dy, Values::dx, {}};
  if constexpr (requires { Values::mask; }) c.mask = Values::mask;
  if constexpr (requires { Values::w0; }) c.variables.push_back({Values::w0, Values::g0});
  if constexpr (requires { Values::w1; }) c.variables.push_back({Values::w1, Values::g1});
  if constexpr (requires { Values::w2; }) c.variables.push_back({Values::w2, Values::g2});
  if constexpr (requires { Values::w3; }) c.variables.push_back({Values::w3, Values::g3});
  if constexpr (requires { Values::w4; }) c.variables.push_back({Values::w4, Values::g4});
  if constexpr (requires { Values::w5; }) c.variables.push_back({Values::w5, Values::g5});
  return c;
}

/// Compares L with them: see check_golden_sequences.
template <class Values, class L, class In>
void check_golden_struct(std::size_t samples) {
  check_golden_sequences<L, In>(golden_case<Values>(samples));
}

}  // namespace lockstep_test
