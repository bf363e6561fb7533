#include "lockstep/extra/elastic/formation.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using lockstep::World;
using lockstep::detail::FormationMessage;
using Kind = FormationMessage::Kind;

namespace {

const World world{.epoch = 2, .id = 77, .slots = {0, 3}};

}  // namespace

TEST_CASE("FormationMessage: each kind is read as it was written") {
  for (const Kind kind :
       {Kind::forming, Kind::at_work, Kind::accept, Kind::refuse, Kind::commit, Kind::withdraw}) {
    const auto read = FormationMessage::read(FormationMessage{.kind = kind, .world = world}.text());
    REQUIRE(read);
    CHECK(read->kind == kind);
    CHECK(read->world.is_same(kind == Kind::forming ? World{} : world));
  }
  const FormationMessage propose{
      .kind = Kind::propose, .version = 9, .world = world, .addresses = {"a:1", "[::1]:2"}};
  CHECK(propose.text() == "propose\n9\n2 77 0 3\na:1\n[::1]:2\n");
  const auto proposed = FormationMessage::read(propose.text());
  REQUIRE(proposed);
  CHECK(proposed->version == 9);
  CHECK(proposed->addresses == propose.addresses);

  FormationMessage claim{.kind = Kind::claim,
                         .slot = 3,
                         .slots = 4,
                         .min_workers = 2,
                         .version = 5,
                         .address = "host:1",
                         .build = "v1"};
  CHECK(FormationMessage::read(claim.text())->memory.is_newcomer());
  claim.memory = {.worked = world, .agreed = {{.epoch = 3, .id = 1, .slots = {3}}}};
  const auto claimed = FormationMessage::read(claim.text());
  REQUIRE(claimed);
  CHECK(claimed->slot == 3);
  CHECK(claimed->slots == 4);
  CHECK(claimed->min_workers == 2);
  CHECK(claimed->version == 5);
  CHECK(claimed->address == "host:1");
  CHECK(claimed->build == "v1");
  CHECK(claimed->memory.worked->is_same(world));
  CHECK(claimed->memory.agreed.at(0).epoch == 3);
}

TEST_CASE("FormationMessage: what is cut short, changed or of a stranger is none") {
  const std::string whole = FormationMessage{
      .kind = Kind::propose,
      .version = 9,
      .world = world,
      .addresses = {"a:1",
                    "b:2"}}.text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(FormationMessage::read(whole.substr(0, size)));
  }
  for (const char* wrong :
       {"GET / HTTP/1.1\n", "propose\n9\n2 77 0 3\na:1\n", "commit\n", "commit\nx\n",
        "claim\n-1\n4\n2\n5\nhost:1\nv1\nnone\n", "claim\n1\n4\n2\n5\nhost:1\nv1\n",
        "claim\n1\n4\n2\n5\nhost:1\nv1\nnone\nnone\n",
        "claim\n99999999999\n4\n2\n5\nhost:1\nv1\nnone\n", "claim\n1\n4\n2\n5\nhost\nv1\nnone\n",
        "claim\n1\n4\n2\n5\nhost:1\nv1\n3 1 2 4\n", "propose\n9\n2 77 0 3\na:1\nb\n",
        "at work\n9223372036854775807 1 0\n"}) {
    CAPTURE(wrong);
    CHECK_FALSE(FormationMessage::read(wrong));
  }
}
