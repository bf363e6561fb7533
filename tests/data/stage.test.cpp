#include "lockstep/data/stage.hpp"

#include <doctest/doctest.h>

#include <utility>

namespace ls = lockstep;

namespace {

struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  Counted& operator=(const Counted&) = delete;
  virtual ~Counted() { --alive; }
  [[nodiscard]] virtual Counted* clone() const = 0;
  virtual int& number() = 0;
};

struct Number final : Counted {
  explicit Number(int n) : value(n) {}
  [[nodiscard]] Counted* clone() const override { return new Number(*this); }
  int& number() override { return value; }
  int value;
};

}  // namespace

TEST_CASE("ClonePtr: a copy has an object of its own, a move takes it over") {
  {
    ls::detail::ClonePtr<Counted> first(new Number(1));
    ls::detail::ClonePtr<Counted> copy = first;
    CHECK(Counted::alive == 2);
    copy->number() = 2;
    CHECK(first->number() == 1);

    const ls::detail::ClonePtr<Counted> moved = std::move(copy);
    CHECK(Counted::alive == 2);
    CHECK(moved->number() == 2);
    CHECK_FALSE(copy);  // NOLINT(bugprone-use-after-move)

    first = moved;
    CHECK(Counted::alive == 2);
    CHECK(first->number() == 2);
    first = ls::detail::ClonePtr<Counted>();
    CHECK_FALSE(first);
    CHECK(moved);
    CHECK(Counted::alive == 1);
    const ls::detail::ClonePtr<Counted> empty = first;
    CHECK_FALSE(empty);
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("scratch: grows, is kept, and is not copied") {
  ls::detail::Scratch scratch;
  int* const first = scratch.get<int>(100);
  first[99] = 7;
  CHECK(scratch.get<int>(50) == first);
  CHECK(scratch.get<int>(100)[99] == 7);
  ls::detail::Scratch copy(scratch);
  CHECK(copy.get<int>(100) != scratch.get<int>(100));
  const auto view = copy.view<float>(5, 3);
  CHECK(view.samples() == 5);
  CHECK(view.stride() == 16);
  CHECK(copy.view<float>(5, 0).empty());
}
