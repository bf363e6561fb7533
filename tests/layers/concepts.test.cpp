#include "lockstep/layers/concepts.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

#include "lockstep/layers/input.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using In = ls::Shape<4>;

static_assert(ls::Layer<UserDense<3>, In> && ls::Layer<UserDense<3>, In, double>);
static_assert(ls::Layer<UserReLU, ls::Shape<2, 2>> && ls::Layer<UserReshape<2, 2>, In>);
static_assert(ls::AliasingLayer<UserReshape<2, 2>> && !ls::AliasingLayer<UserReLU>);
// A part of a model is a layer, and so is a model.
static_assert(ls::Layer<ls::Sequential<UserDense<3>, UserReLU>, In>);
static_assert(ls::Layer<TinyNet, In, double>);
static_assert(!ls::Layer<UserReLU, int> && !ls::Layer<int, In>);

// The least that is a layer, and near misses.
struct Least {
  static constexpr const char* name = "least";
  template <class I>
  using Output = I;
  template <class I, class T>
  static void forward(const ls::ForwardPass<T>&);
  template <class I, class T>
  static void backward(const ls::BackwardPass<T>&);
};
static_assert(ls::Layer<Least, In> && ls::Layer<Least, In, double>);

struct Nameless : Least {
  void name();
};
struct NameIsANumber : Least {
  static constexpr int name = 3;
};
struct OutputIsNoShape : Least {
  template <class I>
  using Output = std::array<int, 4>;
};
struct OutputIsNoTemplate : Least {
  using Output = In;
};
struct NoForward : Least {
  void forward() = delete;
};
struct ForwardIsNoTemplate : Least {
  static void forward(const ls::ForwardPass<float>&);
};
struct ForwardOfTheScalarAlone : Least {
  template <class T>
  static void forward(const ls::ForwardPass<T>&);
};
struct ForwardChangesThePass : Least {
  template <class I, class T>
  static void forward(ls::ForwardPass<T>&);
};
struct ForwardNeedsAnObject : Least {
  template <class I, class T>
  void forward(const ls::ForwardPass<T>&);
};
struct ForwardTakesBackward : Least {
  template <class I, class T>
  static void forward(const ls::BackwardPass<T>&);
};
struct NoBackward : Least {
  void backward() = delete;
};
struct FloatOnly : Least {
  template <class I, class T>
    requires std::same_as<T, float>
  static void backward(const ls::BackwardPass<T>&);
};
static_assert(!ls::Layer<Nameless, In>);
static_assert(!ls::Layer<NameIsANumber, In>);
static_assert(!ls::Layer<OutputIsNoShape, In>);
static_assert(!ls::Layer<OutputIsNoTemplate, In>);
static_assert(!ls::Layer<NoForward, In>);
static_assert(!ls::Layer<ForwardIsNoTemplate, In>);
static_assert(!ls::Layer<ForwardOfTheScalarAlone, In>);
static_assert(!ls::Layer<ForwardChangesThePass, In>);
static_assert(!ls::Layer<ForwardNeedsAnObject, In>);
static_assert(!ls::Layer<ForwardTakesBackward, In>);
static_assert(!ls::Layer<NoBackward, In>);
static_assert(ls::Layer<FloatOnly, In> && !ls::Layer<FloatOnly, In, double>);

// An alias needs neither forward nor backward; a flag that is false makes none.
struct Alias {
  static constexpr std::string_view name = "alias";
  static constexpr bool aliases_input = true;
  template <class I>
  using Output = I;
};
struct NoAlias : Alias {
  static constexpr bool aliases_input = false;
};
static_assert(ls::Layer<Alias, In> && !ls::Layer<NoAlias, In>);

}  // namespace

TEST_CASE("Layer accepts a user's own types and refuses near misses") {}  // at compile time
