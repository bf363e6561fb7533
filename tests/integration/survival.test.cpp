// Runs that are told to stop, and runs that are killed: real processes, real signals, real files.
//
// (One file of more than 800 lines: nearly all cases start one program and
// compare its final lines.)
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/certificates.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// "loss=... parameters_crc32c=..." of each final line.
Words finals(const std::string& output) {
  Words all;
  const std::string mark = "final: ";
  for (std::size_t at = output.find(mark); at != std::string::npos; at = output.find(mark, at + 1))
    all.push_back(output.substr(at + mark.size(), output.find('\n', at) - at - mark.size()));
  return all;
}

Words command(const std::string& folder, Words options, const Words& launcher = {}) {
  Words all{test_program("integration_survivor")};
  all.insert(all.end(), launcher.begin(), launcher.end());
  all.push_back(folder);
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

/// Such a line from its learning rate on: a run that is resumed at its end has nothing left to do,
/// and no loss to show.
std::string without_loss(const std::string& line) {
  return line.substr(line.find("learning_rate"));
}

/// The last line of an undisturbed run.
std::string undisturbed(const Words& options, const std::string& workers = "2") {
  const TemporaryFolder folder;
  const Finished finished =
      run_process(command(folder.path(), options, {"--workers", workers}), {}, 60s);
  const Words last = finals(finished.output);
  REQUIRE_MESSAGE(last.size() == 1, finished.output);
  REQUIRE(finished.exit_code == 0);
  return last[0];
}

/// Ports that are free now. (Each is tried, and given back for the process that will have it.)
std::vector<std::uint16_t> free_ports(std::size_t n) {
  std::vector<std::uint16_t> ports;
  std::vector<int> sockets;
  while (ports.size() < n) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) ::close(socket);
  return ports;
}

/// Two workers, each started by itself as an orchestrator would.
struct Pair {
  std::vector<std::unique_ptr<Process>> workers;

  Pair(const std::string& folder, const Words& options) {
    const auto ports = free_ports(2);
    for (const char* index : {"0", "1"})
      workers.push_back(std::make_unique<Process>(
          command(folder, options),
          Environment{
              {"TF_CONFIG", R"({"cluster":{"worker":["127.0.0.1:)" + std::to_string(ports[0]) +
                                R"(","127.0.0.1:)" + std::to_string(ports[1]) +
                                R"("]},"task":{"type":"worker","index":)" + index + "}}"}}));
  }
  void wait_until_they_train() {
    for (const auto& worker : workers) REQUIRE(worker->wait_for("training from update", 30s));
  }
};

void kill_all(const std::vector<pid_t>& processes, int signal) {
  for (const pid_t process : processes) ::kill(process, signal);
}

/// Kills workers at random moments of a run under the launcher: in turn the chief, the other one,
/// and both; in every second run once more. Every run must end with the bits of an undisturbed one.
/// `part`: of the time that a run takes, the part in which they are killed. (Close to the end, a
/// worker may come back when the job is done, and has ten seconds to see it.)
void kill_at_random_moments(int moments, unsigned seed, double part, bool rejoin,
                            const std::string& shared = "shared=0") {
  const Words options{"epochs=4", "steps=20", "freq=1", rejoin ? "rejoin=1" : "rejoin=0", shared};
  std::string expected;
  auto duration = std::chrono::microseconds::max();
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    expected = undisturbed(options);
    duration = std::min(duration, std::chrono::duration_cast<std::chrono::microseconds>(
                                      std::chrono::steady_clock::now() - begin));
  }
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> delay(
      0, static_cast<std::int64_t>(part * static_cast<double>(duration.count())));
  int disturbed = 0;
  for (int moment = 0; moment < moments; ++moment) {
    CAPTURE(moment);
    CAPTURE(seed);
    const TemporaryFolder folder;
    Process launcher(command(folder.path(), options, {"--workers", "2", "--restarts", "9"}));
    std::vector<pid_t> victims;
    for (int i = 0; i < 5000 && victims.size() < 2; ++i) {
      std::this_thread::sleep_for(200us);
      victims = children_of(launcher.pid());
    }
    if (moment % 3 == 0 && !victims.empty()) victims.pop_back();
    if (moment % 3 == 1 && !victims.empty()) victims.erase(victims.begin());
    std::this_thread::sleep_for(std::chrono::microseconds(delay(random)));
    kill_all(victims, SIGKILL);
    if (moment % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay(random)));
      victims = children_of(launcher.pid());
      if (!victims.empty()) ::kill(victims[random() % victims.size()], SIGKILL);
    }
    const Finished finished = launcher.wait(60s);
    CAPTURE(finished.output);
    REQUIRE_FALSE(finished.timed_out);
    const Words last = finals(finished.output);
    REQUIRE_FALSE(last.empty());
    const bool at_its_end =
        contains(finished.output, "fit: nothing to do");  // killed after the last save
    const auto to_compare = [&](const std::string& line) {
      return at_its_end ? without_loss(line) : line;
    };
    for (const std::string& line : last) REQUIRE(to_compare(line) == to_compare(expected));
    if (finished.exit_code != 0) {  // a worker that was killed after the chief had ended
      REQUIRE(finished.exit_code == 137);
      REQUIRE(contains(finished.output, "worker 1 failed first"));
    }
    REQUIRE_FALSE(std::filesystem::exists(folder.path("training_state")));
    REQUIRE(std::filesystem::is_empty(folder.path()));  // nor is a temporary file left
    disturbed += contains(finished.output, "is started again");
  }
  CHECK(disturbed >= moments / 5);
  MESSAGE(moments << " runs, " << disturbed << " of them disturbed, each ended with " << expected);
}

}  // namespace

TEST_CASE(
    "survival: a signal to either worker makes both save after the same step and exit, and the "
    "next run goes on there" *
    doctest::test_suite("Keras: MultiWorkerMirroredStrategy: preemption")) {
  const Words options{"epochs=3", "steps=20", "step_ms=10"};  // saved at epochs, of 200 ms
  const std::string expected = undisturbed({"epochs=3", "steps=20"});
  for (const int signal : {SIGTERM, SIGINT}) {
    const int code = 128 + signal;
    for (const std::size_t victim : {0u, 1u}) {
      CAPTURE(signal);
      CAPTURE(victim);
      const TemporaryFolder folder;
      Pair pair(folder.path(), options);
      pair.wait_until_they_train();
      std::this_thread::sleep_for(70ms);
      pair.workers[victim]->signal(signal);
      std::string stopped;
      for (const auto& worker : pair.workers) {
        const Finished finished = worker->wait(30s);
        CAPTURE(finished.output);
        CHECK(finished.exit_code == code);
        const std::size_t at = finished.output.find("fit: stopped by ");
        REQUIRE(at != std::string::npos);
        const std::string line = finished.output.substr(at, finished.output.find('\n', at) - at);
        if (stopped.empty()) stopped = line;
        CHECK(line == stopped);
      }
      CHECK(contains(stopped,
                     signal == SIGTERM ? "SIGTERM at epoch 1, step " : "SIGINT at epoch 1, step "));

      Pair resumed(folder.path(), {"epochs=3", "steps=20"});
      const Finished chief = resumed.workers[0]->wait(30s);
      CAPTURE(chief.output);
      CHECK(chief.exit_code == 0);
      CHECK(resumed.workers[1]->wait(30s).exit_code == 0);
      // No step is lost.
      CHECK(contains(chief.output,
                     "training from update " + stopped.substr(stopped.rfind(' ') + 1) + "\n"));
      CHECK(finals(chief.output) == Words{expected});
    }
  }
}

TEST_CASE(
    "survival: the launcher passes a signal to all, or one worker gets it: 143 and 130 either way" *
    doctest::test_suite("Keras: MultiWorkerMirroredStrategy: preemption")) {
  for (const bool to_launcher : {true, false}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      const int code = 128 + signal;
      CAPTURE(to_launcher);
      const TemporaryFolder folder;
      Process launcher(command(folder.path(), {"step_ms=10", "steps=100"}, {"--workers", "2"}));
      REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
      if (to_launcher)
        launcher.signal(signal);
      else
        kill_all({children_of(launcher.pid()).back()}, signal);
      const Finished finished = launcher.wait(30s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == code);
      CHECK(count(finished.output, "fit: stopped by") == 2);
      CHECK(std::filesystem::exists(folder.path("training_state")));
    }
  }
}

TEST_CASE("survival: a run that is preempted again and again ends with the same bits") {
  const std::string expected = undisturbed({});
  const TemporaryFolder folder;
  for (int round = 0; round < 100; ++round) {
    Process launcher(command(folder.path(), {"step_ms=4"}, {"--workers", "2"}));
    (void)launcher.wait_for("[worker 1] training from update", 30s);
    std::this_thread::sleep_for(5ms * (round % 5));
    launcher.signal(SIGTERM);
    const Finished finished = launcher.wait(30s);
    CAPTURE(finished.output);
    if (finished.exit_code == 0) {
      CHECK(without_loss(finals(finished.output).at(0)) == without_loss(expected));
      return;
    }
    REQUIRE(finished.exit_code == 143);
  }
  FAIL("no progress");
}

TEST_CASE("survival: saved by four workers, continued by fewer: the same run to float accuracy") {
  const auto loss = [](const Finished& finished) {
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    return std::atof(finals(finished.output).at(0).c_str() + std::string("loss=").size());
  };
  const double expected = loss(
      run_process(command(TemporaryFolder().path(), {"batch=24"}, {"--workers", "4"}), {}, 60s));
  for (const char* workers : {"1", "2", "3"}) {
    CAPTURE(workers);
    const TemporaryFolder folder;
    Process four(command(folder.path(), {"batch=24", "step_ms=8"}, {"--workers", "4"}));
    REQUIRE(four.wait_for("[worker 3] training from update", 30s));
    std::this_thread::sleep_for(60ms);
    four.signal(SIGTERM);
    REQUIRE(four.wait(30s).exit_code == 143);
    const Finished resumed =
        run_process(command(folder.path(), {"batch=24"}, {"--workers", workers}), {}, 60s);
    CHECK(contains(resumed.output, "resuming from"));
    CHECK(loss(resumed) == doctest::Approx(expected).epsilon(1e-4));
  }
}

TEST_CASE("survival: signals within a second count once, and SIGHUP as SIGTERM: all save") {
  for (const bool to_launcher : {true, false}) {
    for (const int signal : {SIGINT, SIGHUP}) {
      CAPTURE(to_launcher);
      CAPTURE(signal);
      const TemporaryFolder folder;
      Process launcher(command(folder.path(), {"step_ms=50", "steps=1000"}, {"--workers", "2"}));
      REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
      const pid_t target = to_launcher ? launcher.pid() : children_of(launcher.pid()).back();
      for (int i = 0; i < 3; ++i) kill_all({target}, signal);
      const Finished finished = launcher.wait(30s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == (signal == SIGINT ? 130 : 143));
      CHECK(count(finished.output, "fit: stopped by") == 2);
      CHECK(std::filesystem::exists(folder.path("training_state")));
    }
  }
}

TEST_CASE("survival: a signal to the launcher wakes a worker that is stopped: all save") {
  const TemporaryFolder folder;
  Process launcher(command(folder.path(), {"step_ms=10", "steps=10000"}, {"--workers", "2"}));
  REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
  kill_all({children_of(launcher.pid()).back()}, SIGSTOP);
  launcher.signal(SIGTERM);
  const Finished finished = launcher.wait(30s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 143);
  CHECK(count(finished.output, "fit: stopped by SIGTERM") == 2);
  CHECK(std::filesystem::exists(folder.path("training_state")));
}

TEST_CASE(
    "survival: a run with a worker that hangs and cannot be woken up is stopped within ten "
    "seconds") {
  const TemporaryFolder folder;
  const Words options{"step_ms=5", "steps=10000", "spin_at=5", "spin_on=1"};
  Process launcher(command(folder.path("backup"), options, {"--workers", "2", "--restarts", "3"}));
  REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
  for (int i = 0; i < 3000 && !std::filesystem::exists(folder.path("spun")); ++i)
    std::this_thread::sleep_for(10ms);
  const auto begin = std::chrono::steady_clock::now();
  launcher.signal(SIGTERM);
  const Finished finished = launcher.wait(60s);
  const auto duration = std::chrono::steady_clock::now() - begin;
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 143);
  CHECK(contains(finished.output,
                 "worker 1 was told to stop and keeps the others waiting: it is killed"));
  CHECK(duration > 5s);   // not before the hang is certain
  CHECK(duration < 20s);  // about eight, and this machine may be busy
}

TEST_CASE("survival: a second signal ends the process at once, and nothing is saved") {
  const TemporaryFolder folder;
  Process alone(command(folder.path(), {"step_ms=20000"}));
  REQUIRE(alone.wait_for("training from update", 30s));
  alone.signal(SIGTERM);
  std::this_thread::sleep_for(1100ms);  // those within a second are one
  const auto begin = std::chrono::steady_clock::now();
  alone.signal(SIGTERM);
  CHECK(alone.wait(30s).exit_code == 143);
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  CHECK_FALSE(std::filesystem::exists(folder.path("training_state")));
}

TEST_CASE("survival: without save_before_preemption a signal ends the process, as in any program") {
  const TemporaryFolder folder;
  Process alone(command(folder.path(), {"step_ms=20000", "preempt=0"}));
  REQUIRE(alone.wait_for("training from update", 30s));
  alone.signal(SIGTERM);
  CHECK(alone.wait(10s).exit_code == 143);
  CHECK_FALSE(std::filesystem::exists(folder.path("training_state")));
}

TEST_CASE("survival: killed at random moments, started again by the launcher: the same bits") {
  kill_at_random_moments(6, 1, 0.25, false);
}

TEST_CASE("survival: with slots spread over the workers, killed at random moments: the same bits") {
  for (const bool rejoin : {true, false}) kill_at_random_moments(4, 3, 0.8, rejoin, "sharded=1");
}

TEST_CASE("survival: in one of two fits, killed at random moments: the same bits") {
  for (const bool rejoin : {true, false}) kill_at_random_moments(5, 6, 0.8, rejoin, "fits=2");
}

TEST_CASE("survival: in rounds, killed at random moments: the same bits") {
  for (const bool rejoin : {true, false}) kill_at_random_moments(4, 5, 0.8, rejoin, "rounds=3");
}

TEST_CASE(
    "survival: with slots spread over the workers, they go on from the last backup together") {
  const Words plain{"epochs=3", "steps=60"};
  const TemporaryFolder folder;
  Words options = plain;
  options.insert(options.end(), {"step_ms=20", "rejoin=1", "sharded=1", "freq=4"});
  Process launcher(command(folder.path(), options, {"--workers", "3", "--restarts", "1"}));
  REQUIRE(launcher.wait_for("[worker 2] training from update", 30s));
  const std::string backup = folder.path("training_state");
  for (int i = 0; i < 30'000 && !std::filesystem::exists(backup); ++i)
    std::this_thread::sleep_for(1ms);
  REQUIRE(std::filesystem::exists(backup));
  kill_all({children_of(launcher.pid()).at(1)}, SIGKILL);
  const Finished finished = launcher.wait(60s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, "goes on from the last backup"));
  CHECK(count(finished.output, "resuming from") == 1);
  CHECK(count(finished.output, "fit: all workers are together again") == 2);
  CHECK(finals(finished.output) == Words{undisturbed(plain, "3")});
}

TEST_CASE(
    "survival: with rejoin, a worker that is not killed keeps its process, and the bits are the "
    "same" *
    doctest::test_suite("Keras: MultiWorkerMirroredStrategy: health")) {
  for (const std::string shared : {"shared=0", "shared=1"}) {
    const Words options{"epochs=3", "steps=20", "step_ms=5", "rejoin=1", shared};
    const std::string expected = undisturbed(options, "3");
    for (const std::size_t victim : {0u, 1u, 2u}) {
      CAPTURE(shared);
      CAPTURE(victim);
      const TemporaryFolder folder;
      Process launcher(command(folder.path(), options, {"--workers", "3", "--restarts", "2"}));
      REQUIRE(launcher.wait_for("[worker 2] training from update", 30s));
      std::this_thread::sleep_for(80ms);
      const std::vector<pid_t> workers = children_of(launcher.pid());
      REQUIRE(workers.size() == 3);
      kill_all({workers[victim]}, SIGKILL);
      const auto killed = std::chrono::steady_clock::now();
      REQUIRE(launcher.wait_for("[worker " + std::to_string(victim) + "] training from update", 30s,
                                2));
      MESSAGE("trains again " << std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::steady_clock::now() - killed)
                                     .count()
                              << " ms after worker " << victim << " was killed");
      const Finished finished = launcher.wait(60s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 0);
      for (const std::size_t worker : {0u, 1u, 2u}) {
        const std::string name = "[worker " + std::to_string(worker) + "] ";
        CHECK(count(finished.output, name + "process ") == (worker == victim ? 2 : 1));
        CHECK(count(finished.output, name + "training from update 0\n") ==
              1);  // the new one comes in the middle
        CHECK(contains(finished.output, name + "lockstep: fit: all workers are together again") ==
              (worker != victim));
      }
      CHECK(finals(finished.output) == Words{expected});
    }
  }
}

TEST_CASE(
    "survival: the launcher kills and replaces a worker that hangs, not the others: the same "
    "bits") {
  const Words hurried{"timeout_ms=1000", "progress_ms=2000"};
  for (const std::string workers : {"2", "3"}) {
    for (const std::string rejoin : {"rejoin=0", "rejoin=1"}) {
      for (const bool spins : {false, true}) {  // else it is stopped
        const Words training{"epochs=3", "steps=20", "step_ms=5", rejoin};
        const std::string victim = spins || workers == "3" ? "1" : "0";
        CAPTURE(workers);
        CAPTURE(rejoin);
        CAPTURE(spins);
        const TemporaryFolder folder;
        const std::string backup = folder.path("backup");
        Words options = training;
        options.insert(options.end(), hurried.begin(), hurried.end());
        if (spins) options.insert(options.end(), {"spin_at=25", "spin_on=" + victim});
        Process launcher(command(backup, options, {"--workers", workers, "--restarts", "2"}));
        if (!spins) {
          REQUIRE(launcher.wait_for(
              "[worker " + std::string(1, workers[0] - 1) + "] training from update", 30s));
          const auto processes = children_of(launcher.pid());
          REQUIRE(processes.size() == static_cast<std::size_t>(std::stoi(workers)));
          kill_all({processes[static_cast<std::size_t>(std::stoi(victim))]}, SIGSTOP);
        }
        const Finished finished = launcher.wait(60s);
        CAPTURE(finished.output);
        CHECK_FALSE(finished.timed_out);
        CHECK(finished.exit_code == 0);
        CHECK(contains(finished.output, "lockstep: worker " + victim + " was lost to worker "));
        CHECK(contains(
            finished.output,
            "but its process still exists: it is killed and started again; 1 restarts left"));
        CHECK(count(finished.output, "it is killed") == 1);
        if (spins)
          CHECK(contains(
              finished.output,
              "although it is alive: fit, epoch 2, step 6, on_train_batch_begin of SlowSteps"));
        for (int worker = 0; worker < std::stoi(workers); ++worker) {
          const bool stays = rejoin == "rejoin=1" && std::to_string(worker) != victim;
          CHECK(count(finished.output, "[worker " + std::to_string(worker) + "] process ") ==
                (stays ? 1 : 2));
        }
        CHECK(finals(finished.output) == Words{undisturbed(training, workers)});
      }
    }
  }
}

TEST_CASE(
    "survival: without restarts, a worker that hangs is killed soon after its peers have lost it: "
    "138") {
  for (const std::string rejoin : {"rejoin=0", "rejoin=1"}) {
    CAPTURE(rejoin);
    const TemporaryFolder folder;
    Process launcher(command(folder.path(), {"steps=1000", "step_ms=5", rejoin, "timeout_ms=1000"},
                             {"--workers", "2"}));
    REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
    kill_all({children_of(launcher.pid()).back()}, SIGSTOP);
    const auto begin = std::chrono::steady_clock::now();
    const Finished finished = launcher.wait(30s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 138);
    CHECK(contains(finished.output,
                   "lockstep: worker 1 failed first: lost to worker 0 (was silent for more than"));
    CHECK(std::chrono::steady_clock::now() - begin < 20s);
  }
}

TEST_CASE("survival: workers are started again as often as restarts allows, and no more") {
  const TemporaryFolder folder;
  Process launcher(
      command(folder.path(), {"step_ms=10", "steps=500"}, {"--workers", "2", "--restarts", "1"}));
  for (const int times : {1, 2}) {
    REQUIRE(launcher.wait_for("[worker 0] training from update", 30s, times));
    REQUIRE(launcher.wait_for("[worker 1] training from update", 30s, times));
    kill_all({children_of(launcher.pid()).front()}, SIGKILL);
  }
  const Finished finished = launcher.wait(30s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 137);
  CHECK(count(finished.output, "and is started again; 0 restarts left") == 2);
  CHECK(contains(finished.output, "failed first: killed by signal 9"));
}

TEST_CASE("survival: at the end the backup is deleted, and a second run trains again") {
  const TemporaryFolder folder;
  const Finished first = run_process(command(folder.path(), {}, {"--workers", "2"}), {}, 30s);
  CHECK(std::filesystem::is_empty(folder.path()));
  const Finished again = run_process(command(folder.path(), {}, {"--workers", "2"}), {}, 30s);
  CAPTURE(again.output);
  CHECK(again.exit_code == 0);
  CHECK(contains(again.output, "[worker 1] training from update 0"));
  CHECK(finals(again.output) == finals(first.output));
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
TEST_CASE("survival: workers whose connections have TLS train to the same bits") {
  const std::string plain = undisturbed({});
  const TemporaryFolder folder;
  const lockstep_test::Authority authority(folder.path());
  for (const int rank : {0, 1}) (void)authority.issue(rank);
  const std::vector<Environment> environments{
      {{"LOCKSTEP_TLS", "pre_shared_key"}, {"LOCKSTEP_CLUSTER_SECRET", "a secret of some length"}},
      {{"LOCKSTEP_TLS", "certificates"},
       {"LOCKSTEP_TLS_AUTHORITY", authority.file()},
       {"LOCKSTEP_TLS_CERTIFICATE", folder.path("authority-rank-{rank}.pem")},
       {"LOCKSTEP_TLS_KEY", folder.path("authority-rank-{rank}.key")}}};
  for (const Environment& environment : environments) {
    const TemporaryFolder backup;
    const Finished finished =
        run_process(command(backup.path(), {}, {"--workers", "2"}), environment, 60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(finals(finished.output) == Words{plain});
  }
  const Finished refused = run_process(command(folder.path("backup"), {}, {"--workers", "2"}),
                                       {{"LOCKSTEP_TLS", "pre_shared_key"}}, 60s);
  CAPTURE(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.output, "TLS by a pre-shared key needs the cluster's secret"));
}
#endif

TEST_CASE("survival: after a finished run there is nothing to do, which the log says") {
  const TemporaryFolder folder;
  const Words options{"delete=0"};
  const Finished first = run_process(command(folder.path(), options, {"--workers", "2"}), {}, 30s);
  const Finished again = run_process(command(folder.path(), options, {"--workers", "2"}), {}, 30s);
  CAPTURE(again.output);
  CHECK(again.exit_code == 0);
  CHECK(contains(again.output, "fit: nothing to do: the restored training ended after epoch 4"));
  CHECK_FALSE(contains(again.output, "training from update"));
  CHECK(without_loss(finals(again.output).at(0)) == without_loss(finals(first.output).at(0)));
}

TEST_CASE(
    "survival: a save that fails ends training on all workers with the file's name, or is a "
    "warning") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "no folder";
  const Finished failed = run_process(
      command(folder.path("file"), {"freq=2", "step_ms=10"}, {"--workers", "2"}), {}, 30s);
  CAPTURE(failed.output);
  CHECK(failed.exit_code == 1);
  CHECK(contains(failed.output, "[worker 0] error: BackupAndRestore: backup_dir '" +
                                    folder.path("file") +
                                    "': cannot make the folder"));  // seen before the first step
  CHECK(contains(failed.output, "[worker 1] error: "));
  const Finished warned =
      run_process(command(folder.path("file"), {"freq=2", "warn=1"}, {"--workers", "2"}), {}, 30s);
  CHECK(warned.exit_code == 0);
  CHECK(contains(warned.output, "lockstep: warning: BackupAndRestore: saving to"));
  CHECK(finals(warned.output) == Words{undisturbed({})});
}

TEST_CASE("survival: when the disk is full, the older backup stays and the run can go on from it") {
  const TemporaryFolder folder;
  // A first run that is preempted leaves a backup.
  Process first(command(folder.path(), {"step_ms=10", "steps=1000"}, {"--workers", "2"}));
  REQUIRE(first.wait_for("[worker 1] training from update", 30s));
  first.signal(SIGTERM);
  REQUIRE(first.wait(30s).exit_code == 143);
  const auto size = std::filesystem::file_size(folder.path("training_state"));
  const auto time = std::filesystem::last_write_time(folder.path("training_state"));

  std::string limited = "ulimit -f 1; exec";  // files end after 512 bytes
  for (const std::string& word :
       command(folder.path(), {"freq=1", "steps=1000"}, {"--workers", "2"}))
    limited += " '" + word + "'";
  const Finished full = run_process({"/bin/sh", "-c", limited}, {}, 30s);
  CAPTURE(full.output);
  CHECK(full.exit_code == 1);
  CHECK(contains(full.output, "cannot write '" + folder.path("training_state.tmp.")));
  CHECK(contains(full.output,
                 "File too large; the limits are: RLIMIT_FSIZE (ulimit -f) in bytes 512"));
  CHECK(std::filesystem::file_size(folder.path("training_state")) == size);
  CHECK(std::filesystem::last_write_time(folder.path("training_state")) == time);
  CHECK(count(full.output, "resuming from") == 1);
  CHECK(run_process(command(folder.path(), {"steps=1000", "epochs=1"}, {"--workers", "2"}), {}, 30s)
            .exit_code == 0);
}

TEST_CASE("survival: killed in the middle of a save of shards: the state before it is whole") {
  const Words options{"epochs=2", "steps=15", "freq=1", "sharded=1", "shards=1"};
  const std::string expected = undisturbed(options);
  int in_the_middle = 0;
  for (int round = 0; round < 30 && in_the_middle < 3; ++round) {
    const TemporaryFolder folder;
    const std::string state = folder.path("training_state.ckpt");
    // Whether there is a file of a save without its manifest.
    const auto is_unfinished = [&] {
      std::string named;
      for (const char* const name : {"/manifest.json", "/manifest.json.previous"}) {
        std::ifstream manifest(state + name);
        named.append(std::istreambuf_iterator<char>(manifest), {});
      }
      std::error_code none;
      for (std::filesystem::directory_iterator entry(state, none), end; !none && entry != end;
           entry.increment(none)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with("shard-") && !contains(named, name)) return true;
      }
      return false;
    };
    Process launcher(command(folder.path(), options, {"--workers", "2"}));
    REQUIRE(launcher.wait_for("[worker 1] training from update", 30s));
    std::this_thread::sleep_for(10ms * (round % 4));
    for (int i = 0; i < 2000 && !is_unfinished(); ++i) std::this_thread::sleep_for(50us);
    kill_all(children_of(launcher.pid()), SIGKILL);
    (void)launcher.wait(30s);
    in_the_middle += is_unfinished();
    const Finished resumed =
        run_process(command(folder.path(), options, {"--workers", "2"}), {}, 60s);
    CAPTURE(resumed.output);
    REQUIRE(resumed.exit_code == 0);
    const Words last = finals(resumed.output);
    REQUIRE(last.size() == 1);
    if (contains(resumed.output, "fit: nothing to do"))
      CHECK(without_loss(last[0]) == without_loss(expected));
    else
      CHECK(last[0] == expected);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
  CHECK(in_the_middle > 0);
  MESSAGE("killed in the middle of a save: " << in_the_middle);
}

TEST_CASE("survival: shards that a full disk does not take leave the older backup") {
  const TemporaryFolder folder;
  const std::string state = folder.path("training_state.ckpt");
  Process first(
      command(folder.path(), {"step_ms=10", "steps=1000", "shards=1"}, {"--workers", "2"}));
  REQUIRE(first.wait_for("[worker 1] training from update", 30s));
  first.signal(SIGTERM);
  REQUIRE(first.wait(30s).exit_code == 143);
  const auto time = std::filesystem::last_write_time(state + "/manifest.json");

  std::string limited = "ulimit -f 1; exec";  // files end after 512 bytes
  for (const std::string& word :
       command(folder.path(), {"freq=1", "steps=1000", "shards=1"}, {"--workers", "2"}))
    limited += " '" + word + "'";
  const Finished full = run_process({"/bin/sh", "-c", limited}, {}, 30s);
  CAPTURE(full.output);
  CHECK(full.exit_code == 1);
  for (const char* const worker : {"0", "1"})
    CHECK(contains(full.output, std::string("worker ") + worker + " on host "));
  CHECK(contains(full.output, "cannot write '" + state + "/shard-1-of-2-"));
  CHECK(contains(full.output, "an older backup is unharmed"));
  CHECK(std::filesystem::last_write_time(state + "/manifest.json") == time);
  CHECK(run_process(
            command(folder.path(), {"steps=1000", "epochs=1", "shards=1"}, {"--workers", "3"}), {},
            30s)
            .exit_code == 0);
}

TEST_SUITE("survival [full]") {
  TEST_CASE("killed at many random moments: the same bits") {
    const char* moments = std::getenv("LOCKSTEP_KILL_MOMENTS");  // 200 take a minute
    for (const std::string shared : {"shared=0", "shared=1"})
      for (const bool rejoin : {false, true})
        kill_at_random_moments(moments != nullptr ? std::atoi(moments) : 20, 2, 1.2, rejoin,
                               shared);
  }

  TEST_CASE(
      "with rejoin, a worker that hangs counts as lost, and comes back when it wakes up: the same "
      "bits") {
    // (Without a launcher, which would have killed and replaced it.)
    const Words options{"epochs=3", "steps=20", "step_ms=5", "rejoin=1", "timeout_ms=1000"};
    const std::string expected = undisturbed(options);
    for (const std::size_t victim : {0u, 1u}) {
      CAPTURE(victim);
      const TemporaryFolder folder;
      Pair pair(folder.path(), options);
      pair.wait_until_they_train();
      std::this_thread::sleep_for(80ms);
      pair.workers[victim]->signal(SIGSTOP);
      REQUIRE(pair.workers[1 - victim]->wait_for("this worker keeps its state", 30s));
      pair.workers[victim]->signal(SIGCONT);
      std::string output;
      for (const auto& worker : pair.workers) {
        const Finished finished = worker->wait(60s);
        CHECK(finished.exit_code == 0);
        output += finished.output;
      }
      CAPTURE(output);
      CHECK(contains(output, "was silent for more than 1000 ms"));
      CHECK(finals(output) == Words{expected});
    }
  }

  TEST_CASE("mnist under the launcher, a worker killed after a save: the same bits") {
    Words arguments{
        example("mnist"), "--workers", "2",         "--epochs", "2", "--steps-per-epoch", "8",
        "--batch-size",   "16",        "--verbose", "0"};
    const Finished whole = run_process(arguments, {}, 60s);
    REQUIRE_MESSAGE(whole.exit_code == 0, whole.output);
    const TemporaryFolder folder;
    for (const std::string& word :
         {std::string("--restarts"), std::string("3"), std::string("--save-freq"), std::string("2"),
          std::string("--backup-dir"), folder.path()})
      arguments.push_back(word);
    for (const bool chief : {true, false}) {
      Process launcher(arguments);
      for (int i = 0; i < 30'000 && !std::filesystem::exists(folder.path("training_state")); ++i)
        std::this_thread::sleep_for(1ms);
      const auto workers = children_of(launcher.pid());
      REQUIRE(workers.size() == 2);
      ::kill(chief ? workers.front() : workers.back(), SIGKILL);
      const Finished finished = launcher.wait(60s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 0);
      CHECK(contains(finished.output, "is started again"));
      CHECK(contains(finished.output, "resuming from"));
      CHECK(finals(finished.output) == finals(whole.output));
      CHECK(std::filesystem::is_empty(folder.path()));
    }
  }
}

TEST_CASE(
    "survival: a bit that changes on one worker ends all with 138 before a save, and the next run "
    "is sound") {
  const std::string expected = undisturbed({"epochs=3", "steps=6"});
  const TemporaryFolder folder;
  Pair pair(folder.path(), {"epochs=3", "steps=6", "corrupt=9"});
  for (const auto& worker : pair.workers) {
    const Finished finished = worker->wait(30s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 138);
    CHECK(contains(
        finished.output,
        "after 12 updates the replicas have become different: worker 0 and worker 1 differ"));
  }
  CHECK(std::filesystem::exists(folder.path("training_state")));
  CHECK_FALSE(std::filesystem::exists(folder.path("training_state.lock")));
  const Finished resumed =
      run_process(command(folder.path(), {"epochs=3", "steps=6"}, {"--workers", "2"}), {}, 60s);
  CAPTURE(resumed.output);
  CHECK(resumed.exit_code == 0);
  CHECK(contains(resumed.output, "training from update 6\n"));
  CHECK(finals(resumed.output) == Words{expected});
}

TEST_CASE("survival: an exception does not prevent a save that is due") {
  const std::string expected = undisturbed({});
  for (const char* freq : {"freq=1", "freq=6"}) {
    CAPTURE(freq);
    const TemporaryFolder folder;
    Pair pair(folder.path(), {freq, "fail=13"});
    for (const auto& worker : pair.workers) {
      const Finished finished = worker->wait(30s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 1);
    }
    const Finished resumed =
        run_process(command(folder.path(), {freq}, {"--workers", "2"}), {}, 60s);
    CAPTURE(resumed.output);
    CHECK(contains(resumed.output, "training from update 12\n"));  // the last complete save
    CHECK(finals(resumed.output) == Words{expected});
  }
}

TEST_CASE(
    "survival: a second job in the folder of a running one is refused, and the first goes on") {
  const TemporaryFolder folder;
  Process first(command(folder.path(), {"step_ms=20", "steps=100"}, {"--workers", "2"}));
  REQUIRE(first.wait_for("[worker 0] training from update", 30s));
  const Finished second = run_process(command(folder.path(), {}), {}, 30s);
  CAPTURE(second.output);
  CHECK(second.exit_code == 2);
  CHECK(contains(second.output, "is in use by another job (process "));
  first.signal(SIGTERM);
  const Finished finished = first.wait(30s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 143);
  CHECK(contains(finished.output, "before leaving"));
}

TEST_CASE("survival: a run goes on from the backup before the last one when that is damaged") {
  const TemporaryFolder folder;
  Process stopped(command(folder.path(), {"freq=2", "fail=13"}));
  CHECK(stopped.wait(30s).exit_code == 1);
  std::ofstream(folder.path("training_state"), std::ios::binary) << "damaged";
  const Finished resumed =
      run_process(command(folder.path(), {"freq=2"}, {"--workers", "2"}), {}, 60s);
  CAPTURE(resumed.output);
  CHECK(contains(resumed.output, "going on from the backup before it"));
  CHECK(contains(resumed.output, "training_state.previous' at epoch "));  // the disk decides which
  CHECK(resumed.exit_code == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(finals(resumed.output).size() == 1);
}
