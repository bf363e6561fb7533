// Workers that come and go: real processes, real kills. (Partitions are simulated, in
// tests/extra/elastic; here a process that is stopped is cut off from the others.)
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/certificates.hpp"
#include "support/formation_stranger.hpp"
#include "support/free_addresses.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// What a worker's last line says of its model.
std::string final_line(const std::string& output) {
  const std::string mark = "final: ";
  const std::size_t at = output.find(mark);
  return at == std::string::npos
             ? std::string()
             : output.substr(at + mark.size(), output.find('\n', at) - at - mark.size());
}
double number(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(name + "=");
  return at == std::string::npos ? 0 : std::atof(line.c_str() + at + name.size() + 1);
}
void check_close(const std::string& line, const std::string& expected) {
  CHECK(number(line, "updates") == number(expected, "updates"));
  for (const char* name : {"loss", "sum", "squares"}) {
    CAPTURE(name);
    CHECK(number(line, name) == doctest::Approx(number(expected, name)).epsilon(1e-4));
  }
}

void wait_for_file(const std::string& file) {
  for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(10ms);
  REQUIRE(std::filesystem::exists(file));
}

/// Workers that an orchestrator starts: each by itself, at a place of its own.
class Workers {
 public:
  Workers(std::size_t count, Words options, Environment environment = {})
      : Workers(count, count, std::move(options), std::move(environment)) {}
  /// Of `count` places, the first ones are taken.
  Workers(std::size_t count, std::size_t taken, Words options, Environment environment)
      : options_(std::move(options)),
        environment_(std::move(environment)),
        addresses_(free_addresses(static_cast<int>(count))),
        workers_(count) {
    for (std::size_t slot = 0; slot < taken; ++slot) start(slot);
    for (std::size_t slot = 0; slot < taken; ++slot)
      REQUIRE(workers_[slot]->wait_for("training from update", 60s));
  }

  /// `other`: in place of what its environment has by that name.
  void start(std::size_t slot, const Environment& other = {}, const Words& more = {}) {
    std::string list;
    for (const std::string& address : addresses_)
      list += (list.empty() ? "\"" : ",\"") + address + "\"";
    Environment environment = environment_;
    environment.emplace_back("TF_CONFIG", R"({"cluster":{"worker":[)" + list +
                                              R"(]},"task":{"type":"worker","index":)" +
                                              std::to_string(slot) + "}}");
    environment.insert(environment.end(), other.begin(), other.end());
    Words command{test_program("integration_elastic")};
    command.insert(command.end(), options_.begin(), options_.end());
    command.insert(command.end(), more.begin(), more.end());
    workers_[slot] = std::make_unique<Process>(command, environment);
  }
  /// It is gone when this returns.
  void kill(std::size_t slot) {
    workers_[slot]->signal(SIGKILL);
    CHECK(workers_[slot]->wait(10s).exit_code == 128 + SIGKILL);
    workers_[slot].reset();
  }
  [[nodiscard]] Process& operator[](std::size_t slot) { return *workers_[slot]; }
  [[nodiscard]] const std::string& address(std::size_t slot) const { return addresses_[slot]; }

  /// Waits for those that are there, which must all come to the same end; returns it.
  [[nodiscard]] std::string finish() {
    std::string line;
    for (std::size_t slot = 0; slot < workers_.size(); ++slot) {
      if (workers_[slot] == nullptr) continue;
      CAPTURE(slot);
      const Finished finished = workers_[slot]->wait(60s);
      output += finished.output;
      CAPTURE(finished.output);
      REQUIRE_FALSE(finished.timed_out);
      REQUIRE(finished.exit_code == 0);
      REQUIRE_FALSE(final_line(finished.output).empty());
      if (line.empty()) line = final_line(finished.output);
      CHECK(final_line(finished.output) == line);
    }
    return line;
  }
  std::string output;  // of all, after finish()

 private:
  Words options_;
  Environment environment_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Process>> workers_;
};

/// The same training on one worker, with the same global batch.
std::string alone(const Words& options = {}) {
  Words command{test_program("integration_elastic"), "elastic=0"};
  command.insert(command.end(), options.begin(), options.end());
  const Finished finished = run_process(command, {}, 60s);
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  return final_line(finished.output);
}

/// The worlds that the log names, made by hand on one worker: batches of 24 samples for `size`
/// workers, and epochs of 20 steps.
std::string with_worlds_of(const std::string& output, int size, int epochs) {
  std::map<int, std::pair<int, int>> worlds{{1, {0, size}}};  // first update, workers
  const std::string mark = "fit: world ";
  for (std::size_t at = output.find(mark); at != std::string::npos;
       at = output.find(mark, at + 1)) {
    int number = 0, workers = 0, epoch = 0, step = 0;
    const std::string line = output.substr(at, output.find('\n', at) - at);
    REQUIRE(std::sscanf(line.c_str(), "fit: world %d", &number) == 1);
    REQUIRE(std::sscanf(line.c_str() + line.find('('), "(%d of", &workers) == 1);
    REQUIRE(std::sscanf(line.c_str() + line.find(", from"), ", from epoch %d, step %d", &epoch,
                        &step) == 2);
    worlds[number] = {20 * (epoch - 1) + step - 1, workers};
  }
  std::string text;
  for (auto world = worlds.begin(); world != worlds.end(); ++world) {
    const auto next = std::next(world);
    const int end = next == worlds.end() ? 20 * epochs : next->second.first;
    const auto [begin, workers] = world->second;
    text += (text.empty() ? "" : ",") + std::to_string(24 * workers / size) + "x" +
            std::to_string(end - begin);
  }
  return alone({"by_hand=" + text});
}

/// The same with so many workers, none of which is lost.
std::string undisturbed(std::size_t count, const Words& options) {
  return Workers(count, options).finish();
}

}  // namespace

TEST_CASE("elastic: a worker that does not come back is left out, be it the chief: the same run") {
  const std::string expected = alone();
  for (const std::size_t victim : {0u, 1u, 2u}) {
    CAPTURE(victim);
    Workers workers(3, {"step_ms=5", "wait_ms=500"});
    std::this_thread::sleep_for(50ms);
    workers.kill(victim);
    check_close(workers.finish(), expected);
    const std::string others = victim == 0 ? "1 2" : victim == 1 ? "0 2" : "0 1";
    CHECK(contains(workers.output, "fit: world 2: workers " + others + " (2 of 3), from epoch "));
  }
}

TEST_CASE("elastic: a worker that is lost before fit is left out, or comes back, be it the chief") {
  const std::string expected = alone();
  for (const char* option : {"read_ms=1500", "late_ms=1500"})
    for (const std::size_t victim : {0u, 2u})
      for (const bool comes_back : {false, true}) {
        const std::string mark = option[0] == 'r' ? "reads its data" : "has compiled";
        CAPTURE(option);
        CAPTURE(victim);
        CAPTURE(comes_back);
        Workers workers(3, 0, {option, comes_back ? "wait_ms=30000" : "wait_ms=500"}, {});
        for (const std::size_t slot : {0u, 1u, 2u}) workers.start(slot);
        for (const std::size_t slot : {0u, 1u, 2u}) REQUIRE(workers[slot].wait_for(mark, 60s));
        workers.kill(victim);
        if (comes_back) workers.start(victim);
        check_close(workers.finish(), expected);
        CHECK(contains(workers.output, "world 2: workers "));
      }
}

TEST_CASE("elastic: on one side alone it is a difference, which is named") {
  for (const std::size_t elastic : {0u, 1u}) {
    CAPTURE(elastic);
    Workers workers(2, 0, {"wait_ms=2000"}, {});
    workers.start(elastic);
    workers.start(1 - elastic, {}, {"elastic=0"});
    const Finished with = workers[elastic].wait(60s);
    CAPTURE(with.output);
    CHECK(with.exit_code == 2);
    CHECK(contains(with.output,
                   "trains without ElasticOptions (MultiWorkerMirroredOptions::elastic), and this "
                   "worker with them"));
    // (One that waits for calls alone goes on waiting for the right one.)
    CHECK(workers[1 - elastic].wait_for(
        "trains with ElasticOptions (MultiWorkerMirroredOptions::elastic), and this worker without",
        60s));
  }
}

TEST_CASE("elastic: where ranks are not the numbers of workers, messages name the worker") {
  Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=1000"});
  workers.kill(0);
  for (const std::size_t slot : {1u, 2u}) REQUIRE(workers[slot].wait_for("fit: world 2", 30s));
  workers.kill(2);
  CHECK(
      workers[1].wait_for("world 2: workers 1 2 (2 of 3), this is worker 1: "
                          "ranks 0 1 are workers 1 2\n",
                          1s));
  CHECK(workers[1].wait_for(": worker 2 (", 30s));
}

TEST_CASE("elastic: a worker that is back within the wait: the bits of the undisturbed run") {
  for (const std::string replicas : {"replicas=1", "replicas=2"}) {
    const Words options{"step_ms=5", "wait_ms=30000", replicas};
    const std::string expected = undisturbed(3, options);
    for (const std::size_t victim : {0u, 1u}) {
      CAPTURE(replicas);
      CAPTURE(victim);
      Workers workers(3, options);
      std::this_thread::sleep_for(50ms);
      workers.kill(victim);
      workers.start(victim);
      CHECK(workers.finish() == expected);
      CHECK(contains(workers.output, "fit: world 2: workers 0 1 2 (3 of 3), from epoch "));
    }
  }
}

TEST_CASE("elastic: a worker that comes back leaves out the fits that the others have made") {
  const Words options{"step_ms=5", "wait_ms=30000", "fits=2"};
  const std::string expected = undisturbed(3, options);
  for (const std::size_t victim : {0u, 1u}) {
    CAPTURE(victim);
    Workers workers(3, options);
    REQUIRE(workers[2].wait_for("update 70\n", 30s));  // of the second fit
    workers.kill(victim);
    workers.start(victim);
    CHECK(workers.finish() == expected);
    CHECK(contains(workers.output,
                   "fit: the other workers are in fit 2 of this model: this one leaves out fit 1"));
  }
}

TEST_CASE("elastic: a worker that comes back to an earlier model than the others' ends the run") {
  Workers workers(3, {"step_ms=5", "wait_ms=30000", "folds=2"});
  REQUIRE(workers[2].wait_for("final: ", 30s));
  REQUIRE(workers[2].wait_for("update 10\n", 30s, 2));
  workers.kill(1);
  workers.start(1);
  for (const std::size_t slot : {0u, 1u, 2u}) {
    const Finished finished = workers[slot].wait(60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 2);
    CHECK(contains(finished.output,
                   "compile: the workers differ: worker 1 has 'models of the strategy: 1', the "
                   "chief has 'models of the strategy: 2'"));
  }
}

TEST_CASE("elastic: a worker that comes later is taken in, with the state of the others") {
  const Words options{"step_ms=5", "wait_ms=300", "epochs=40", "auto=1"};
  const std::string expected = alone({"epochs=40"});
  for (const std::size_t victim : {0u, 2u}) {
    CAPTURE(victim);
    Workers workers(3, options, {{"LOCKSTEP_CLUSTER_SECRET", "a secret of the test's own"}});
    workers.kill(victim);
    REQUIRE(workers[1].wait_for("fit: world 2", 30s));
    workers.start(victim);
    check_close(workers.finish(), expected);
    CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3)"));
    CHECK_FALSE(contains(workers.output, "world 4"));
  }
}

TEST_CASE("elastic: a global batch that follows the world: the same as these worlds by hand") {
  const Words options{"step_ms=5", "wait_ms=300", "epochs=40", "follows=1"};
  for (const std::size_t victim : {0u, 1u}) {
    CAPTURE(victim);
    Workers workers(3, options);
    std::this_thread::sleep_for(40ms);
    workers.kill(victim);
    REQUIRE(workers[2].wait_for("fit: world 2", 30s));
    workers.start(victim);
    const std::string line = workers.finish();
    check_close(line, with_worlds_of(workers.output, 3, 40));
    CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3)"));
    CHECK(contains(workers.output, "fit: world 2: workers "));
  }
}

TEST_CASE("elastic: one that comes during a fit in a callback waits for the outer one") {
  const Words options{"step_ms=5", "wait_ms=300", "epochs=30", "steps=2", "inner=20"};
  const std::string expected = alone({"epochs=30", "steps=2"});
  Workers workers(3, options);
  workers.kill(2);
  REQUIRE(workers[1].wait_for("fit: world 2", 30s));
  workers.start(2);
  check_close(workers.finish(), expected);
  CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3)"));
}

TEST_CASE("elastic: the chief of the moment saves, and leaves the folder to one that comes back") {
  const lockstep_test::TemporaryFolder folder;
  const std::string file = folder.path("training_state");
  Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=60"},
                  {{"ELASTIC_BACKUP_DIR", folder.path()}});
  workers.kill(0);
  std::filesystem::remove(file);
  REQUIRE(workers[1].wait_for("fit: world 2", 30s));
  wait_for_file(file);  // by worker 1
  workers.start(0);
  check_close(workers.finish(), alone({"epochs=60"}));
  CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3), from epoch "));
  CHECK_FALSE(contains(workers.output, "warning"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("elastic: a new chief that cannot read the backup goes on from what survivors have") {
  const lockstep_test::TemporaryFolder folder;
  const Words options{"step_ms=5", "wait_ms=600", "epochs=20"};
  Workers workers(3, options, {{"ELASTIC_BACKUP_DIR", folder.path()}});
  wait_for_file(folder.path("training_state"));
  workers.kill(0);
  for (const std::string name : {"training_state", "training_state.previous"})
    std::ofstream(folder.path(name)) << "damaged";
  check_close(workers.finish(), alone({"epochs=20"}));
  CHECK(contains(workers.output, "warning: BackupAndRestore: '" + folder.path("training_state")));
  CHECK(contains(workers.output, "It is not needed now: training goes on from the state of"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("elastic: sharded updates go on from the last backup after a loss, and nowhere else") {
  const std::string expected = alone({"epochs=40"});
  for (const std::size_t victim : {0u, 1u}) {
    CAPTURE(victim);
    const lockstep_test::TemporaryFolder folder;
    Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=40", "sharded=1"},
                    {{"ELASTIC_BACKUP_DIR", folder.path()}});
    wait_for_file(folder.path("training_state"));
    workers.kill(victim);
    REQUIRE(workers[2].wait_for("fit: world 2", 30s));
    workers.start(victim);
    check_close(workers.finish(), expected);
    CHECK(contains(workers.output, "waits for the others, and goes on from the last backup"));
    // Saved after epochs: at a first step. The newcomer makes none go back: of the updates that are
    // told before its world begins, none is made again.
    const std::string mark = "fit: world 3: workers 0 1 2 (3 of 3), from epoch ";
    const std::size_t second = workers.output.find("fit: world 2: ");
    const std::size_t third = workers.output.find(mark);
    REQUIRE(third != std::string::npos);
    CHECK(contains(workers.output.substr(second, workers.output.find('\n', second) - second),
                   ", step 1"));
    int epoch = 0, step = 0, told = 0;
    REQUIRE(std::sscanf(workers.output.c_str() + third + mark.size(), "%d, step %d", &epoch,
                        &step) == 2);
    const std::size_t last = workers.output.rfind("\nupdate ", third);
    if (last != std::string::npos && last > second)
      REQUIRE(std::sscanf(workers.output.c_str() + last, "\nupdate %d", &told) == 1);
    CHECK(20 * (epoch - 1) + step - 1 >= told);
  }
}

TEST_CASE("elastic: sharded updates, a worker that is back within the wait: the same bits") {
  const lockstep_test::TemporaryFolder folder;
  const Environment saves{{"ELASTIC_BACKUP_DIR", folder.path()}};
  const Words options{"step_ms=5", "wait_ms=30000", "sharded=1", "freq=7", "replicas=2"};
  const std::string expected = Workers(3, options, saves).finish();
  for (const std::size_t victim : {0u, 2u}) {
    CAPTURE(victim);
    Workers workers(3, options, saves);
    wait_for_file(folder.path("training_state"));
    workers.kill(victim);
    workers.start(victim);
    CHECK(workers.finish() == expected);
    CHECK(contains(workers.output, "fit: world 2: workers 0 1 2 (3 of 3), from epoch "));
  }
}

TEST_CASE("elastic: sharded updates without a backup end when a worker is lost, and say why") {
  Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=1000", "sharded=1"});
  workers.kill(1);
  for (const std::size_t slot : {0u, 2u}) {
    const Finished finished = workers[slot].wait(60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 138);
    CHECK(contains(finished.output, "there is no backup to go on from"));
  }
}

TEST_CASE("elastic: in rounds, a worker that is back within the wait: the same bits") {
  for (const Words& kind : {Words{"rounds=4", "replicas=2"}, Words{"rounds=7", "diloco=1"}}) {
    const lockstep_test::TemporaryFolder folder;
    const Environment saves{{"ELASTIC_BACKUP_DIR", folder.path()}};
    Words options{"step_ms=5", "wait_ms=30000", "freq=5"};
    options.insert(options.end(), kind.begin(), kind.end());
    const std::string expected = Workers(3, options, saves).finish();
    for (const std::size_t victim : {0u, 2u}) {
      CAPTURE(kind[0]);
      CAPTURE(victim);
      Workers workers(3, options, saves);
      wait_for_file(folder.path("training_state"));
      std::this_thread::sleep_for(10ms);  // within a round
      workers.kill(victim);
      workers.start(victim);
      CHECK(workers.finish() == expected);
      CHECK(contains(workers.output, "fit: world 2: workers 0 1 2 (3 of 3), from epoch "));
      CHECK(contains(workers.output, "waits for the others, and goes on from the last backup"));
    }
  }
}

/// A worker is lost in a round, and another one comes. Two workers and then three, begun by hand from
/// the same backup, end with the same; with `follows`, the two are two of three.
static void check_rounds_by_hand(std::size_t victim, const Words& kind, bool follows) {
  CAPTURE(victim);
  CAPTURE(kind[0]);
  const lockstep_test::TemporaryFolder folder, copy;
  Words options{"step_ms=5", "wait_ms=300", "epochs=16", "steps=40"};
  options.insert(options.end(), kind.begin(), kind.end());
  if (follows) options.insert(options.end(), {"min=2", "follows=1"});
  Workers workers(3, options, {{"ELASTIC_BACKUP_DIR", folder.path()}});
  wait_for_file(folder.path("training_state"));
  std::this_thread::sleep_for(20ms);  // within a round
  workers.kill(victim);
  std::filesystem::copy_file(folder.path("training_state"), copy.path("training_state"));
  REQUIRE(workers[2].wait_for("fit: world 2", 30s));
  workers.start(victim);
  const std::string line = workers.finish();

  // The two save and leave where the third one came.
  const std::string mark = "fit: world 3: workers 0 1 2 (3 of 3), from epoch ";
  const std::size_t at = workers.output.find(mark);
  REQUIRE(at != std::string::npos);
  int epoch = 0, step = 0;
  REQUIRE(std::sscanf(workers.output.c_str() + at + mark.size(), "%d, step %d", &epoch, &step) ==
          2);
  const int updates = 40 * (epoch - 1) + step - 1;
  CAPTURE(updates);
  CHECK((follows || updates % 40 == 0 || updates % 40 % std::atoi(kind[0].c_str() + 7) == 0));
  const Environment saves{{"ELASTIC_BACKUP_DIR", copy.path()}};
  Words by_hand = options;
  if (!follows) by_hand.push_back("elastic=0");
  by_hand.push_back("leave=" + std::to_string(updates));
  Workers two(follows ? 3 : 2, 2, by_hand, saves);
  for (const std::size_t slot : {0u, 1u}) CHECK(two[slot].wait(60s).exit_code == 143);
  by_hand.back() = "leave=0";
  CHECK(Workers(3, by_hand, saves).finish() == line);
}

TEST_CASE("elastic: in rounds, a worker is lost and another one comes: these worlds by hand") {
  check_rounds_by_hand(0, {"rounds=7", "replicas=2"}, false);
  check_rounds_by_hand(1, {"rounds=9", "diloco=1"}, false);
}

TEST_CASE("elastic: in rounds, a batch that follows the world: the same as these worlds by hand") {
  check_rounds_by_hand(0, {"rounds=9", "diloco=1"}, true);
  check_rounds_by_hand(1, {"rounds=7", "replicas=2"}, true);
}

TEST_CASE("elastic: in shared memory, workers are left out, taken in, or back within the wait") {
  const std::string expected = alone({"epochs=40"});
  for (const std::size_t victim : {0u, 2u}) {
    CAPTURE(victim);
    Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=40", "shared=1"});
    workers.kill(victim);
    REQUIRE(workers[1].wait_for("fit: world 2", 30s));
    workers.start(victim);
    check_close(workers.finish(), expected);
    CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3)"));
  }
  const Words options{"step_ms=5", "wait_ms=30000", "shared=1"};
  const std::string bits = undisturbed(3, options);
  Workers workers(3, options);
  workers.kill(1);
  workers.start(1);
  CHECK(workers.finish() == bits);
  CHECK(contains(workers.output, "fit: world 2: workers 0 1 2 (3 of 3), from epoch "));
}

TEST_CASE("elastic: in rounds, without a backup all end when a worker is lost, and say why") {
  Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=1000", "rounds=5"});
  workers.kill(1);
  for (const std::size_t slot : {0u, 2u}) {
    const Finished finished = workers[slot].wait(60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 138);
    CHECK(contains(finished.output,
                   "fit: with LocalSGD(steps=5), a worker that was lost has "
                   "taken what its optimizer has learnt along"));
    CHECK(contains(finished.output, "there is no backup to go on from"));
  }
}

TEST_CASE("elastic: one that is cut off is left out, comes back when it can, and is taken in") {
  const Words options{"step_ms=5", "wait_ms=500", "timeout_ms=1000", "epochs=60"};
  Workers workers(3, options);
  workers[0].signal(SIGSTOP);
  REQUIRE(workers[1].wait_for("fit: world 2: workers 1 2 (2 of 3)", 60s));
  workers[0].signal(SIGCONT);
  check_close(workers.finish(), alone({"epochs=60"}));
  CHECK(contains(workers.output, "workers 0 1 2 (3 of 3), from epoch "));
}

TEST_CASE(
    "elastic: half of a world, or fewer than min_workers, end with 138 and say who is missing") {
  for (const std::string least : {"min=1", "min=3"}) {
    CAPTURE(least);
    Workers workers(4, {"step_ms=5", "wait_ms=200", "epochs=1000", least});
    workers.kill(0);
    workers.kill(3);
    for (const std::size_t slot : {1u, 2u}) {
      const Finished finished = workers[slot].wait(60s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 138);
      CHECK(contains(finished.output, "there are here: 1 2; missing: 0 3"));
      CHECK(contains(finished.output, "more than half of the last world, workers 0 1 2 3"));
      CHECK_FALSE(contains(finished.output, "world 2"));
    }
  }
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

namespace {

Environment with_certificates(const Authority& authority, const TemporaryFolder& folder, int size) {
  for (int slot = 0; slot < size; ++slot) (void)authority.issue(slot);
  return {{"LOCKSTEP_TLS", "certificates"},
          {"LOCKSTEP_TLS_AUTHORITY", authority.file()},
          {"LOCKSTEP_TLS_CERTIFICATE", folder.path("authority-rank-{rank}.pem")},
          {"LOCKSTEP_TLS_KEY", folder.path("authority-rank-{rank}.key")}};
}

}  // namespace

TEST_CASE("elastic: with certificates, a worker is left out and taken in, as ranks change") {
  const std::string expected = alone({"epochs=40"});
  for (const std::string policy : {"auto=0", "auto=1"}) {
    CAPTURE(policy);
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=40", policy},
                    with_certificates(authority, folder, 3));
    workers.kill(0);
    REQUIRE(workers[2].wait_for("fit: world 2: workers 1 2 (2 of 3)", 30s));
    workers.start(0);
    check_close(workers.finish(), expected);
    CHECK(contains(workers.output, "ranks 0 1 are workers 1 2"));
    CHECK(contains(workers.output, "fit: world 3: workers 0 1 2 (3 of 3)"));
    CHECK_FALSE(contains(workers.output, "turned away"));
  }
}

TEST_CASE("elastic: with certificates, a worker that is back within the wait: the same bits") {
  const Words options{"step_ms=5", "wait_ms=30000"};
  const std::string expected = undisturbed(3, options);
  const TemporaryFolder folder;
  const Authority authority(folder.path());
  Workers workers(3, options, with_certificates(authority, folder, 3));
  workers.kill(1);
  workers.start(1);
  CHECK(workers.finish() == expected);
  CHECK(contains(workers.output, "fit: world 2: workers 0 1 2 (3 of 3), from epoch "));
}

TEST_CASE("elastic: with the certificate of another worker a newcomer is turned away") {
  const TemporaryFolder folder;
  const Authority authority(folder.path());
  Workers workers(3, {"step_ms=5", "wait_ms=300", "epochs=100"},
                  with_certificates(authority, folder, 3));
  workers.kill(0);
  for (const std::size_t slot : {1u, 2u}) REQUIRE(workers[slot].wait_for("fit: world 2", 30s));

  // By itself, which knows its own place.
  workers.start(0, {{"LOCKSTEP_TLS_CERTIFICATE", folder.path("authority-rank-2.pem")},
                    {"LOCKSTEP_TLS_KEY", folder.path("authority-rank-2.key")}});
  const Finished itself = workers[0].wait(30s);
  CAPTURE(itself.output);
  CHECK(itself.exit_code == 2);
  CHECK(contains(itself.output,
                 "is for rank-2.lockstep, and this worker needs one for rank-0.lockstep"));

  // And by the others, if it does not look: for the vacant place, and for that of a member.
  const auto stolen = lockstep::detail::TlsContext::make(
      {.tls = lockstep::Tls::certificates,
       .files = {.authority = authority.file(),
                 .certificate = folder.path("authority-rank-2.pem"),
                 .key = folder.path("authority-rank-2.key")}},
      {}, 2);
  CHECK(lockstep_test::claim_slot(workers.address(1), stolen, 1, 0, 3, 1).is_closed);
  CHECK(lockstep_test::claim_slot(workers.address(2), stolen, 2, 1, 3, 1).is_closed);
  CHECK(lockstep_test::claim_slot(workers.address(1), nullptr, 1, 0, 3, 1).is_closed);
  CHECK(
      workers[1].wait_for("claims to be worker 0, with a certificate for rank-2.lockstep, and "
                          "not for rank-0.lockstep; it is turned away",
                          10s));
  CHECK(workers[2].wait_for("claims to be worker 1, with a certificate for rank-2.lockstep", 10s));

  workers.start(0);  // with its own
  REQUIRE(workers[1].wait_for("fit: world 3: workers 0 1 2 (3 of 3)", 60s));
  check_close(workers.finish(), alone({"epochs=100"}));
  CHECK_FALSE(contains(workers.output, "world 4"));
}

#endif

TEST_CASE("elastic: the example of the documents: killed, left out, started again by hand") {
  const Words options{"--epochs", "15", "--steps-per-epoch", "20", "--verbose", "2"};
  Words single{example("mnist"), "--batch-size", "48"};
  single.insert(single.end(), options.begin(), options.end());
  const Finished expected = run_process(single, {}, 120s);
  REQUIRE(expected.exit_code == 0);
  for (const std::size_t victim : {2u, 0u}) {
    CAPTURE(victim);
    Words command{example("mnist"), "--workers", "3", "--elastic", "2", "--elastic-wait", "1",
                  "--batch-size",   "16"};
    command.insert(command.end(), options.begin(), options.end());
    Process launcher(command);
    REQUIRE(launcher.wait_for("Epoch 1/15", 60s));
    const auto workers = children_of(launcher.pid());
    REQUIRE(workers.size() == 3);
    ::kill(workers[victim], SIGKILL);
    REQUIRE(launcher.wait_for("fit: world 2: workers ", 60s));
    const std::string mark = "when it is started again: ";
    const std::size_t told = launcher.seen().find(mark);
    REQUIRE(told != std::string::npos);
    const std::string line = launcher.seen().substr(told + mark.size());
    Process successor({"/bin/sh", "-c", line.substr(0, line.find('\n'))});
    const Finished finished = launcher.wait(120s);
    const Finished late = successor.wait(60s);
    CAPTURE(finished.output);
    CAPTURE(late.output);
    CHECK(finished.exit_code == 0);
    CHECK(late.exit_code == 0);
    CHECK(contains(late.output, "fit: world 3: workers 0 1 2 (3 of 3), from epoch "));
    const std::string all = finished.output + late.output;  // a new chief tells the end
    for (const char* name : {"loss", "accuracy"}) {
      CAPTURE(name);
      CHECK(number(final_line(all), name) ==
            doctest::Approx(number(final_line(expected.output), name)).epsilon(0.01));
    }
  }
}

TEST_CASE("elastic: killed at random moments, back or not") {
  const char* const wanted = std::getenv("LOCKSTEP_KILL_MOMENTS");
  const int moments = wanted != nullptr ? std::atoi(wanted) : 8;
  std::mt19937 random(3);
  const std::string single = alone({"epochs=4"});
  std::vector<std::string> expected(7), expected_in_rounds(7);
  int disturbed = 0;
  for (int moment = 0; moment < moments; ++moment) {
    CAPTURE(moment);
    const std::size_t size = 2 + random() % 5;
    const bool in_rounds = moment % 4 == 2;
    const bool returns = size == 2 || in_rounds || random() % 2 == 0;
    const bool sharded = moment % 2 == 1;  // to the same bits as without
    const bool saves = sharded || in_rounds;
    const lockstep_test::TemporaryFolder folder;
    Words options{"step_ms=4", "epochs=4", returns ? "wait_ms=30000" : "wait_ms=400"};
    if (in_rounds) options.emplace_back("rounds=6");
    std::string& same = (in_rounds ? expected_in_rounds : expected)[size];
    if (returns && same.empty()) same = undisturbed(size, options);
    if (sharded) options.emplace_back("sharded=1");
    if (saves) options.emplace_back("freq=3");
    Workers workers(size, options,
                    saves ? Environment{{"ELASTIC_BACKUP_DIR", folder.path()}} : Environment{});
    if (saves) wait_for_file(folder.path("training_state"));
    const std::size_t victim = random() % size;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % (saves ? 180 : 250)));
    workers.kill(victim);
    if (returns) {
      if (random() % 3 == 0) {  // and once more, while it comes back
        workers.start(victim);
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
        workers.kill(victim);
      }
      workers.start(victim);
    }
    const std::string line = workers.finish();
    if (returns) CHECK(line == same);
    if (!in_rounds) check_close(line, single);
    disturbed += contains(workers.output, "fit: world 2") ? 1 : 0;
  }
  CHECK(disturbed >= moments / 2);
  MESSAGE(moments << " runs, " << disturbed << " of them disturbed");
}
