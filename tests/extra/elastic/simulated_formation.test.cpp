// Worlds that form over a network that fails in thousands of ways, under virtual time.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/simulated_schedules.hpp"
#include "lockstep/extra/elastic/formation.hpp"
#include "support/simulated_network.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;
using lockstep::World;
using lockstep::detail::Formation;
using lockstep::detail::FormationMessage;

namespace {

using Phase = Formation::Phase;

/// A cluster of processes as an orchestrator keeps it: one that ends is started again. Of the
/// training there is what matters here: members connect if all of them can, lose each other when
/// one is gone, and leave together for a newcomer.
class SimulatedCluster {
 public:
  using Milliseconds = std::chrono::milliseconds;

  SimulatedCluster(int slots, int min_workers, std::uint64_t seed)
      : network_(slots, seed, some_weather(seed)),
        min_workers_(min_workers),
        workers_(static_cast<std::size_t>(slots)) {}

  [[nodiscard]] SimulatedNetwork& network() { return network_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] int worlds() const { return static_cast<int>(worked_.size()); }
  [[nodiscard]] int failures() const { return failures_; }
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }
  bool restarts = true;
  /// From now on, none that forms a world may give up.
  bool may_fail = true;

  void start(int slot) {
    if (network_.is_alive(slot)) return;
    const int process = network_.start(slot);
    Worker& worker = at(slot);
    worker = {};
    worker.formation = std::make_unique<Formation>(Formation::Place{.slot = slot,
                                                                    .slots = network_.size(),
                                                                    .min_workers = min_workers_,
                                                                    .wait = wait,
                                                                    .patience = 60s},
                                                   network_.random(~std::uint64_t{0}));
    worker.guests.resize(workers_.size());
    worker.called.resize(workers_.size());
    network_.listen(slot, [this, slot](const SimulatedNetwork::Pointer& socket) {
      const auto conversation = std::make_shared<Conversation>();
      conversation->socket = socket;
      socket->on_change = [this, slot, conversation] { read_guest(slot, conversation); };
    });
    begin(slot);
    tick(slot, process);
  }
  void kill(int slot) {
    network_.kill(slot);
    at(slot) = {};
    if (restarts) network_.after(network_.random_time(10ms, 8s), [this, slot] { start(slot); });
  }

  /// It is deadlocked, or in a long save: it stays in its world, and its other thread answers.
  void keep_busy(int slot, bool is_busy) {
    if (network_.is_alive(slot)) at(slot).is_busy = is_busy;
  }
  /// It has lost the connection to another one.
  void lose_world(int slot) { at(slot).leaves = true; }
  /// At work, in a world with these members.
  [[nodiscard]] bool is_in_world_of(int slot, const std::vector<int>& members) {
    return network_.is_alive(slot) && at(slot).formation->phase() == Phase::at_work &&
           world(slot).slots == members;
  }
  /// All that live are at work in one world of so many.
  [[nodiscard]] bool is_together(int size) {
    for (int slot = 0; slot < network_.size(); ++slot)
      if (network_.is_alive(slot) &&
          (at(slot).formation->phase() != Phase::at_work ||
           static_cast<int>(at(slot).formation->world().slots.size()) != size))
        return false;
    return true;
  }
  [[nodiscard]] const World& world(int slot) { return at(slot).formation->world(); }

  static constexpr Milliseconds wait{3000};

 private:
  struct Conversation {
    SimulatedNetwork::Pointer socket;
    std::string in;
    int slot = -1;
  };
  struct Worker {
    std::unique_ptr<Formation> formation;
    std::vector<std::shared_ptr<Conversation>> guests, called;  // by slot
    std::set<int> calling;
    SimulatedNetwork::Time connects_until{};
    bool leaves = false;
    bool is_busy = false;
  };

  Worker& at(int slot) { return workers_[static_cast<std::size_t>(slot)]; }
  static std::size_t index(int slot) { return static_cast<std::size_t>(slot); }

  void begin(int slot) {
    at(slot).leaves = false;
    at(slot).formation->begin("host" + std::to_string(slot) + ":1", network_.now());
    deliver(slot);
  }

  void deliver(int slot) {
    Worker& worker = at(slot);
    for (const auto& letter : worker.formation->take_letters()) {
      const auto& to = (letter.is_answer ? worker.guests : worker.called)[index(letter.to)];
      if (to == nullptr || !to->socket->is_open()) continue;
      const std::string text = letter.message.text();
      network_.send(*to->socket, std::string{static_cast<char>(text.size() / 256),
                                             static_cast<char>(text.size() % 256)} +
                                     text);
    }
    if (worker.formation->phase() == Phase::connecting &&
        worker.connects_until == SimulatedNetwork::Time{}) {
      worker.connects_until = network_.now() + 5s;
      hang_up(slot);
    }
  }
  // A process that is not forming a world calls none.
  void hang_up(int slot) {
    for (int other = 0; other < network_.size(); ++other)
      if (const auto call = std::exchange(at(slot).called[index(other)], nullptr)) {
        network_.close(*call->socket);
        at(slot).formation->lose_called(other);
      }
  }

  template <class F>
  void take(Conversation& conversation, F f) {
    conversation.in += network_.read(*conversation.socket, 1 << 20);
    auto& in = conversation.in;
    while (in.size() >= 2) {
      const std::size_t size =
          static_cast<unsigned char>(in[0]) * 256u + static_cast<unsigned char>(in[1]);
      if (in.size() < 2 + size) return;
      const auto message = FormationMessage::read(in.substr(2, size));
      in.erase(0, 2 + size);
      if (!message)
        problem_ = "a message cannot be read";
      else
        f(*message);
    }
  }

  void read_guest(int slot, const std::shared_ptr<Conversation>& conversation) {
    Worker& worker = at(slot);
    if (worker.formation == nullptr) return;
    take(*conversation, [&](const FormationMessage& message) {
      if (message.kind == FormationMessage::Kind::claim && conversation->slot < 0) {
        conversation->slot = message.slot;
        auto& known = worker.guests[index(message.slot)];
        if (known != nullptr) {
          network_.close(*known->socket);
          worker.formation->lose_guest(message.slot, network_.now());
        }
        known = conversation;
      }
      if (conversation->slot >= 0 && worker.guests[index(conversation->slot)] == conversation)
        worker.formation->hear_guest(conversation->slot, message, network_.now());
    });
    if (conversation->socket->is_at_end()) {
      network_.close(*conversation->socket);
      conversation->socket->on_change = nullptr;
      if (conversation->slot >= 0 && worker.guests[index(conversation->slot)] == conversation) {
        worker.guests[index(conversation->slot)] = nullptr;
        worker.formation->lose_guest(conversation->slot, network_.now());
      }
    }
    deliver(slot);
  }

  void call(int slot, int other) {
    Worker& worker = at(slot);
    if (worker.called[index(other)] != nullptr || !worker.calling.insert(other).second) return;
    network_.connect(slot, other, 1s,
                     [this, slot, other](const SimulatedNetwork::Pointer& socket, bool) {
                       Worker& caller = at(slot);
                       caller.calling.erase(other);
                       if (socket == nullptr) return;
                       if (caller.formation->phase() != Phase::forming)
                         return network_.close(*socket);
                       const auto conversation = std::make_shared<Conversation>();
                       conversation->socket = socket;
                       caller.called[index(other)] = conversation;
                       caller.formation->reached(other, network_.now());
                       socket->on_change = [this, slot, other, conversation] {
                         read_called(slot, other, conversation);
                       };
                       deliver(slot);
                       read_called(slot, other, conversation);
                     });
  }
  void read_called(int slot, int other, const std::shared_ptr<Conversation>& conversation) {
    Worker& worker = at(slot);
    if (worker.formation == nullptr || worker.called[index(other)] != conversation) return;
    take(*conversation, [&](const FormationMessage& message) {
      if (worker.called[index(other)] == conversation)
        worker.formation->hear_called(other, message, network_.now());
    });
    if (conversation->socket->is_at_end() && worker.called[index(other)] == conversation) {
      worker.called[index(other)] = nullptr;
      network_.close(*conversation->socket);
      worker.formation->lose_called(other);
    }
    deliver(slot);
  }

  [[nodiscard]] bool is_in(int slot, const World& world) {
    if (!network_.is_alive(slot)) return false;
    const Formation& formation = *at(slot).formation;
    return (formation.phase() == Phase::connecting || formation.phase() == Phase::at_work) &&
           formation.world().is_same(world);
  }
  /// All members live, are in it, and hear each other.
  [[nodiscard]] bool is_whole(const World& world) {
    for (const int member : world.slots) {
      if (!is_in(member, world)) return false;
      for (const int other : world.slots)
        if (!network_.passes(member, other)) return false;
    }
    return true;
  }

  void tick(int slot, int process) {
    if (network_.process(slot) != process) return;
    Worker& worker = at(slot);
    Formation& formation = *worker.formation;
    formation.advance(network_.now());
    deliver(slot);
    switch (formation.phase()) {
      case Phase::forming:
        worker.connects_until = {};
        for (int other = 0; other < network_.size(); ++other)
          if (other != slot) call(slot, other);
        break;
      case Phase::connecting:
        if (is_whole(formation.world())) {
          formation.works(network_.now());
          comes_to_work(formation.world());
        } else if (network_.now() >= worker.connects_until) {
          worker.connects_until = {};
          begin(slot);
        }
        break;
      case Phase::at_work:
        worker.connects_until = {};
        if (worker.is_busy) break;
        if (formation.has_newcomer(network_.now()))
          for (const int member : formation.world().slots)
            if (is_in(member, formation.world())) at(member).leaves = true;
        if (worker.leaves)
          begin(slot);
        else if (!is_whole(formation.world()) && network_.random(10) == 0)  // it notices
          begin(slot);
        break;
      case Phase::failed:
        ++failures_;
        last_failure_ = formation.problem();
        if (!may_fail) problem_ = "one gives up: " + last_failure_;
        return kill(slot);
      case Phase::idle:
        break;
    }
    network_.tell_at(network_.now() + network_.random_time(50ms, 100ms), slot,
                     [this, slot, process] { tick(slot, process); });
  }

  void comes_to_work(const World& world) {
    if (static_cast<int>(world.slots.size()) < min_workers_) problem_ = "a world is too small";
    for (const auto& [key, other] : worked_)
      if (key != std::pair(world.epoch, world.id) && is_working(other))
        problem_ = "two worlds at once: " + world.text() + " and " + other.text();
    worked_[{world.epoch, world.id}] = world;
  }
  /// Its members have all come, and none has left.
  [[nodiscard]] bool is_working(const World& world) {
    for (const int member : world.slots)
      if (!is_in(member, world)) return false;
    return true;
  }

  SimulatedNetwork network_;
  int min_workers_;
  std::vector<Worker> workers_;
  std::map<std::pair<std::int64_t, std::uint64_t>, World> worked_;
  std::string problem_;
  std::string last_failure_;
  int failures_ = 0;
};

/// For two minutes things happen; then all heals, and all must come together.
std::string run_schedule(std::uint64_t seed) {
  const int slots = 2 + static_cast<int>(seed % 5);
  const int min_workers = 1 + static_cast<int>(seed / 5 % static_cast<std::uint64_t>(slots));
  SimulatedCluster cluster(slots, min_workers, seed);
  SimulatedNetwork& network = cluster.network();
  for (int slot = 0; slot < slots; ++slot)
    network.after(network.random_time(0ms, 500ms), [&, slot] { cluster.start(slot); });
  const auto end = network.now() + 120s;
  const int disturbances = static_cast<int>(seed % 23);
  for (int i = 0; i < disturbances; ++i) {
    const auto time = network.now() + network.random_time(0ms, 100s);
    const int slot = network.random_host(), other = network.random_host();
    switch (network.random(7)) {
      case 0:
      case 1:
        network.at(time, [&, slot] {
          if (network.is_alive(slot)) cluster.kill(slot);
        });
        break;
      case 2: {  // some are cut off from the others
        const auto part = network.random(std::uint64_t{1} << slots);
        const bool one_way = network.random(3) == 0;
        const auto length = network.random_time(100ms, 30s);
        for (int a = 0; a < slots; ++a)
          for (int b = 0; b < slots; ++b)
            if ((part >> a & 1) == 1 && (part >> b & 1) == 0) {
              network.at(time, [&, a, b, one_way] {
                network.cut(a, b);
                if (!one_way) network.cut(b, a);
              });
              network.at(time + length, [&, a, b] {
                network.heal(a, b);
                network.heal(b, a);
              });
            }
        break;
      }
      case 3:
        if (slot == other) break;
        network.at(time, [&, slot, other] { network.cut(slot, other); });
        network.at(time + network.random_time(100ms, 20s),
                   [&, slot, other] { network.heal(slot, other); });
        break;
      case 4:
        network.at(time, [&, slot] {
          if (network.is_alive(slot)) network.freeze(slot);
        });
        network.at(time + network.random_time(100ms, 20s), [&, slot] {
          if (network.is_alive(slot) && network.is_frozen(slot)) network.thaw(slot);
        });
        break;
      case 5:
        network.at(time, [&, slot] { cluster.keep_busy(slot, true); });
        network.at(time + network.random_time(100ms, 40s),
                   [&, slot] { cluster.keep_busy(slot, false); });
        break;
      default:  // several at once
        for (int each = 0; each < slots; ++each)
          if (network.random(2) == 0)
            network.at(time + network.random_time(0ms, 300ms), [&, each] {
              if (network.is_alive(each)) cluster.kill(each);
            });
    }
  }
  network.run_until(end, [&] { return !cluster.problem().empty(); });
  for (int a = 0; a < slots; ++a) {
    for (int b = 0; b < slots; ++b) network.heal(a, b);
    if (network.is_frozen(a)) network.thaw(a);
    cluster.keep_busy(a, false);
  }
  // Workers left of half a world give up by then, and are started again.
  network.at(end + 25s, [&] { cluster.may_fail = false; });
  network.run_until(end + 60s,
                    [&] { return !cluster.problem().empty() || cluster.is_together(slots); });
  if (!cluster.problem().empty()) return cluster.problem();
  if (!cluster.is_together(slots)) return "they do not come together; " + cluster.last_failure();
  if (cluster.worlds() == 0) return "no world";
  return {};
}

}  // namespace

TEST_CASE("formation: never two worlds at once, and all come together when the network heals") {
  try_schedules(run_schedule, 400, {});
}

TEST_CASE("formation: a lost worker is left out after the wait, and taken in when it comes") {
  for (const int lost : {0, 1, 2}) {
    CAPTURE(lost);
    SimulatedCluster cluster(3, 2, 7);
    SimulatedNetwork& network = cluster.network();
    for (int slot = 0; slot < 3; ++slot) cluster.start(slot);
    network.run_until(network.now() + 10s, [&] { return cluster.is_together(3); });
    REQUIRE(cluster.is_together(3));
    cluster.restarts = false;
    cluster.kill(lost);
    const auto killed = network.now();
    network.run_until(killed + 20s, [&] { return cluster.is_together(2); });
    REQUIRE(cluster.is_together(2));
    CHECK(network.now() - killed >= SimulatedCluster::wait);
    CHECK(network.now() - killed < SimulatedCluster::wait + 3s);
    CHECK_FALSE(cluster.world(lost == 2 ? 0 : 2).has(lost));
    cluster.start(lost);
    network.run_until(network.now() + 10s, [&] { return cluster.is_together(3); });
    CHECK(cluster.is_together(3));
    CHECK(cluster.world(lost).epoch == 3);
    CHECK(cluster.problem().empty());
  }
}

TEST_CASE("formation: one that is back within the wait is waited for, whichever it is") {
  for (const int size : {2, 3, 6}) {
    for (int lost = 0; lost < size; ++lost) {
      SimulatedCluster cluster(size, 1, 3);
      SimulatedNetwork& network = cluster.network();
      for (int slot = 0; slot < size; ++slot) cluster.start(slot);
      network.run_until(network.now() + 10s, [&] { return cluster.is_together(size); });
      REQUIRE(cluster.is_together(size));
      cluster.restarts = false;
      cluster.kill(lost);
      network.after(1500ms, [&] { cluster.start(lost); });
      network.run_until(network.now() + 30s,
                        [&] { return network.is_alive(lost) && cluster.is_together(size); });
      REQUIRE(cluster.is_together(size));
      CHECK(cluster.world(lost).epoch == 2);
    }
  }
}

TEST_CASE("formation: half of a world does not go on, and says who is missing") {
  SimulatedCluster cluster(4, 1, 11);
  SimulatedNetwork& network = cluster.network();
  for (int slot = 0; slot < 4; ++slot) cluster.start(slot);
  network.run_until(network.now() + 10s, [&] { return cluster.is_together(4); });
  REQUIRE(cluster.is_together(4));
  cluster.restarts = false;
  const int before = cluster.worlds();
  for (const int a : {0, 1})
    for (const int b : {2, 3}) {
      network.cut(a, b);
      network.cut(b, a);
    }
  const auto begin = network.now();
  network.run_until(begin + 60s, [&] { return cluster.failures() == 4; });
  CHECK(cluster.failures() == 4);
  CHECK(network.now() - begin < 2 * SimulatedCluster::wait + 12s);
  CHECK(cluster.worlds() == before);
  CHECK(cluster.last_failure().find("missing:") != std::string::npos);
  CHECK(cluster.last_failure().find("more than half of the last world, workers 0 1 2 3") !=
        std::string::npos);
}

TEST_CASE("formation: one that hangs in the world that the others have left does not keep them") {
  for (const int hung : {0, 1, 2}) {
    CAPTURE(hung);
    SimulatedCluster cluster(3, 2, 5);
    SimulatedNetwork& network = cluster.network();
    for (int slot = 0; slot < 3; ++slot) cluster.start(slot);
    network.run_until(network.now() + 10s, [&] { return cluster.is_together(3); });
    REQUIRE(cluster.is_together(3));
    cluster.keep_busy(hung, true);
    std::vector<int> others;
    for (int slot = 0; slot < 3; ++slot)
      if (slot != hung) others.push_back(slot);
    for (const int slot : others) cluster.lose_world(slot);
    const auto lost = network.now();
    const auto go_on = [&] {
      return cluster.is_in_world_of(others[0], others) && cluster.is_in_world_of(others[1], others);
    };
    network.run_until(lost + 20s, go_on);
    REQUIRE(go_on());
    CHECK(network.now() - lost < SimulatedCluster::wait + 3s);
    cluster.keep_busy(hung, false);
    network.run_until(network.now() + 20s, [&] { return cluster.is_together(3); });
    CHECK(cluster.is_together(3));
    CHECK(cluster.failures() == 0);
    CHECK(cluster.problem().empty());
  }
}

TEST_CASE(
    "formation: half of a world waits for a member that is busy, and makes it more than half") {
  SimulatedCluster cluster(4, 1, 6);
  SimulatedNetwork& network = cluster.network();
  for (int slot = 0; slot < 4; ++slot) cluster.start(slot);
  network.run_until(network.now() + 10s, [&] { return cluster.is_together(4); });
  REQUIRE(cluster.is_together(4));
  cluster.restarts = false;
  cluster.keep_busy(0, true);
  cluster.kill(3);
  const auto killed = network.now();
  network.run_until(killed + 40s, [&] { return cluster.failures() > 0; });  // a save
  CHECK(cluster.failures() == 0);
  cluster.keep_busy(0, false);
  network.run_until(network.now() + 10s, [&] { return cluster.is_together(3); });
  CHECK(cluster.is_together(3));
  CHECK(cluster.problem().empty());
}

TEST_CASE("formation: two that could not hear each other for a while go on where they were") {
  SimulatedCluster cluster(3, 3, 9);
  SimulatedNetwork& network = cluster.network();
  cluster.restarts = false;
  for (const int slot : {0, 1}) cluster.start(slot);
  network.run_until(network.now() + 2s, [] { return false; });
  network.freeze(0);  // its connections stand
  network.run_until(network.now() + 8s, [] { return false; });
  network.thaw(0);
  network.run_until(network.now() + 6s, [] { return false; });
  cluster.start(2);
  const auto begin = network.now();
  network.run_until(begin + 10s, [&] { return network.is_alive(2) && cluster.is_together(3); });
  CHECK(cluster.is_together(3));
  CHECK(cluster.failures() == 0);
}

namespace {

std::vector<FormationMessage> said(Formation& formation) {
  std::vector<FormationMessage> messages;
  for (const auto& letter : formation.take_letters()) messages.push_back(letter.message);
  return messages;
}

/// Slot 2 of three, which has lost the world of all under slot 0, and calls slot 0 again.
struct ReturningSlot {
  Formation formation{{.slot = 2, .slots = 3, .min_workers = 1}, 1};
  Formation::Time now{};
  const World world{.epoch = 7, .id = 70, .slots = {0, 1, 2}};

  ReturningSlot() {
    formation.begin("c:1", now);
    formation.reached(0, now);
    propose(world);
    formation.hear_called(0, {.kind = Kind::commit, .world = world}, now);
    REQUIRE(formation.phase() == Phase::connecting);
    formation.lose_called(0);
    formation.works(now);
    formation.begin("c:2", now);
    (void)said(formation);
    formation.reached(0, now);
  }
  using Kind = FormationMessage::Kind;
  /// As slot 0, which answers what this one has claimed.
  void propose(const World& proposed) {
    std::uint64_t version = 0;
    for (const auto& message : said(formation))
      if (message.kind == Kind::claim) version = message.version;
    formation.hear_called(0,
                          {.kind = Kind::propose,
                           .version = version,
                           .world = proposed,
                           .addresses = std::vector<std::string>(proposed.slots.size(), "a:1")},
                          now);
  }
};

}  // namespace

TEST_CASE("formation: a proposal that was withdrawn is forgotten, also by one that had left it") {
  ReturningSlot slot;
  Formation& formation = slot.formation;
  const World next{.epoch = 8, .id = 80, .slots = {0, 1, 2}};
  slot.propose(next);
  REQUIRE(formation.memory().knows(next));
  slot.now += Formation::silence + 1ms;
  formation.advance(slot.now);  // the proposer is lost, and may have told others to connect
  CHECK(formation.memory().knows(next));
  formation.hear_called(0, {.kind = FormationMessage::Kind::withdraw, .world = next}, slot.now);
  CHECK_FALSE(formation.memory().knows(next));
  CHECK(formation.memory().knows(slot.world));
}

TEST_CASE("formation: a proposer says again that it has withdrawn what a guest still claims") {
  using Kind = FormationMessage::Kind;
  Formation proposer({.slot = 0, .slots = 2, .min_workers = 1}, 1);
  const Formation::Time now{};
  proposer.begin("a:1", now);
  FormationMessage claim{
      .kind = Kind::claim, .slot = 1, .slots = 2, .min_workers = 1, .version = 1, .address = "b:1"};
  proposer.hear_guest(1, claim, now);  // all are there: it proposes at once
  const auto proposed = said(proposer);
  REQUIRE(proposed.back().kind == Kind::propose);
  const World world = proposed.back().world;
  proposer.lose_guest(1, now);
  (void)said(proposer);  // not delivered
  claim.version = 2;
  claim.memory.agreed = {world};
  proposer.hear_guest(1, claim, now);
  bool says_again = false;
  for (const auto& message : said(proposer))
    says_again |= message.kind == Kind::withdraw && message.world.is_same(world);
  CHECK(says_again);
}

TEST_CASE("formation: one whose world is over is a newcomer, whatever the other world's number") {
  ReturningSlot slot;
  Formation& formation = slot.formation;
  const World other{.epoch = 1, .id = 10, .slots = {0, 1}};
  formation.hear_called(0, {.kind = FormationMessage::Kind::at_work, .world = slot.world},
                        slot.now);
  CHECK_FALSE(formation.memory().is_newcomer());
  formation.hear_called(0, {.kind = FormationMessage::Kind::at_work, .world = other}, slot.now);
  CHECK(formation.memory().is_newcomer());
}

TEST_CASE("formation: one that takes part in nothing says nothing") {
  Formation idle({.slot = 0, .slots = 2, .min_workers = 1}, 1);
  const FormationMessage claim{.kind = FormationMessage::Kind::claim,
                               .slot = 1,
                               .slots = 2,
                               .min_workers = 1,
                               .version = 1,
                               .address = "b:1"};
  idle.hear_guest(1, claim, {});
  idle.advance({});
  CHECK(said(idle).empty());
  idle.begin("a:1", {});
  CHECK_FALSE(said(idle).empty());
}
