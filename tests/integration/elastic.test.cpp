// Workers that come and go: real processes, real kills. (Partitions are simulated, in
// tests/collectives/elastic; here a process that is stopped is cut off from the others.)
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/free_addresses.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep::testing;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

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

/// Workers that an orchestrator starts: each by itself, at a place of its own.
class Workers {
 public:
  Workers(std::size_t count, Words options, Environment environment = {})
      : options_(std::move(options)),
        environment_(std::move(environment)),
        addresses_(free_addresses(static_cast<int>(count))),
        workers_(count) {
    for (std::size_t slot = 0; slot < count; ++slot) start(slot);
    for (const auto& worker : workers_) REQUIRE(worker->wait_for("training from update", 60s));
  }

  void start(std::size_t slot) {
    std::string list;
    for (const std::string& address : addresses_)
      list += (list.empty() ? "\"" : ",\"") + address + "\"";
    Environment environment = environment_;
    environment.emplace_back("TF_CONFIG", R"({"cluster":{"worker":[)" + list +
                                              R"(]},"task":{"type":"worker","index":)" +
                                              std::to_string(slot) + "}}");
    Words command{PROGRAM_ELASTIC};
    command.insert(command.end(), options_.begin(), options_.end());
    workers_[slot] = std::make_unique<Process>(command, environment);
  }
  /// It is gone when this returns.
  void kill(std::size_t slot) {
    workers_[slot]->signal(SIGKILL);
    CHECK(workers_[slot]->wait(10s).exit_code == 128 + SIGKILL);
    workers_[slot].reset();
  }
  [[nodiscard]] Process& operator[](std::size_t slot) { return *workers_[slot]; }

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
  Words command{PROGRAM_ELASTIC, "elastic=0"};
  command.insert(command.end(), options.begin(), options.end());
  const Finished finished = run_process(command, {}, 60s);
  REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
  return final_line(finished.output);
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
  for (int i = 0; i < 3000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(10ms);
  CHECK(std::filesystem::exists(file));  // by worker 1
  workers.start(0);
  check_close(workers.finish(), alone({"epochs=60"}));
  CHECK(contains(workers.output, "world 3: workers 0 1 2 (3 of 3), from epoch "));
  CHECK_FALSE(contains(workers.output, "warning"));
  CHECK(std::filesystem::is_empty(folder.path()));
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

TEST_CASE("elastic: killed at random moments, back or not") {
  const char* const wanted = std::getenv("LOCKSTEP_KILL_MOMENTS");
  const int moments = wanted != nullptr ? std::atoi(wanted) : 8;
  std::mt19937 random(3);
  const std::string single = alone({"epochs=4"});
  std::vector<std::string> expected(7);
  int disturbed = 0;
  for (int moment = 0; moment < moments; ++moment) {
    CAPTURE(moment);
    const std::size_t size = 2 + random() % 5;
    const bool returns = size == 2 || random() % 2 == 0;
    const Words options{"step_ms=4", "epochs=4", returns ? "wait_ms=30000" : "wait_ms=400"};
    if (returns && expected[size].empty()) expected[size] = undisturbed(size, options);
    Workers workers(size, options);
    const std::size_t victim = random() % size;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 250));
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
    if (returns) CHECK(line == expected[size]);
    check_close(line, single);
    disturbed += contains(workers.output, "fit: world 2") ? 1 : 0;
  }
  CHECK(disturbed >= moments / 2);
  MESSAGE(moments << " runs, " << disturbed << " of them disturbed");
}
