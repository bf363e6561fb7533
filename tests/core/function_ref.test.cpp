#include "lockstep/core/function_ref.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ls = lockstep;

namespace {

int call(ls::FunctionRef<int(int)> f, int argument) { return f(argument); }
std::string own(ls::FunctionRef<std::string(std::unique_ptr<int>)> f) {
  return f(std::make_unique<int>(5));
}
void say(ls::FunctionRef<void(std::string&)> f, std::string& text) { f(text); }

/// Counts its calls.
struct Counter {
  int calls = 0;
  int operator()(int by) { return calls += by; }
};
struct Constant {
  int value;
  int operator()(int) const { return value; }
};

using Ref = ls::FunctionRef<int(int)>;
static_assert(std::is_trivially_copyable_v<Ref> && sizeof(Ref) == 2 * sizeof(void*));
static_assert(std::is_constructible_v<Ref, Counter&> &&
              !std::is_constructible_v<Ref, const Counter&>);
static_assert(std::is_constructible_v<Ref, const Constant&>);
static_assert(!std::is_constructible_v<Ref, int(int)> &&
              std::is_constructible_v<Ref, int (*)(int)>);
static_assert(!std::is_constructible_v<Ref, std::string (*)(int)> &&
              !std::is_constructible_v<Ref, int (*)(std::string)>);

}  // namespace

TEST_CASE("FunctionRef: calls the object itself, no copy of it") {
  Counter counter;
  CHECK(call(counter, 2) == 2);
  CHECK(call(counter, 3) == 5);
  CHECK(counter.calls == 5);
  const Constant constant{.value = 8};
  CHECK(call(constant, 0) == 8);
  CHECK(call([&](int by) { return by + counter.calls; }, 10) == 15);
  CHECK(call([](int) { return short{3}; }, 0) == 3);
}

TEST_CASE("FunctionRef: a copy refers to the same object, not to the first reference") {
  Counter counter;
  Ref first = counter;
  const Ref second = first;
  Counter other;
  first = Ref(other);
  CHECK(second(4) == 4);
  CHECK(counter.calls == 4);
  CHECK(other.calls == 0);
}

TEST_CASE(
    "FunctionRef: hands arguments on as they are, drops a result that is not wanted, and lets "
    "exceptions through") {
  CHECK(own([](std::unique_ptr<int> number) { return std::to_string(*number); }) == "5");
  std::string text = "a";
  say([](std::string& string) -> std::string& { return string += "b"; }, text);
  CHECK(text == "ab");
  CHECK_THROWS_AS(call([](int) -> int { throw std::runtime_error("no"); }, 0), std::runtime_error);
}
