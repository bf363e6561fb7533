// Workers and parameter servers as processes, and the deaths of both.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/free_addresses.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// Two workers and a server, with a folder for its backup.
struct Job {
  bool has_backup = true;
  bool has_tls = false;
  std::string address = free_addresses(1).front();
  std::string shared_folder{};  ///< for the backups; else `folder`
  TemporaryFolder folder{};

  /// The file that workers wait for at the end of their fifth epoch and of all later ones.
  [[nodiscard]] std::string gate() const { return folder.path() + "/gate"; }
  [[nodiscard]] std::unique_ptr<Process> start(const std::string& type, int index) const {
    const std::string config = R"({"cluster": {"worker": ["a:1", "b:1"], "ps": [")" + address +
                               R"("]}, "task": {"type": ")" + type + R"(", "index": )" +
                               std::to_string(index) + "}}";
    Environment environment{{"TF_CONFIG", config}};
    if (has_tls) {
      environment.emplace_back("LOCKSTEP_TLS", "pre_shared_key");
      environment.emplace_back("LOCKSTEP_CLUSTER_SECRET", "correct horse battery staple");
    }
    return std::make_unique<Process>(
        std::vector<std::string>{
            test_program("integration_served"),
            has_backup ? (shared_folder.empty() ? folder.path() : shared_folder) : "", "10", "20",
            gate()},
        environment);
  }
};

/// What follows "loss " in the last line of a worker.
std::string result_of(const Finished& finished) {
  const auto at = finished.output.find(": loss ");
  REQUIRE(at != std::string::npos);
  return finished.output.substr(at);
}

}  // namespace

TEST_CASE("served: a worker and a server are killed, and the job ends as if they had not been") {
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
  const Job job{.has_tls = true};
#else
  const Job job;
#endif
  auto server = job.start("ps", 0);
  const auto chief = job.start("worker", 0);
  auto second = job.start("worker", 1);
  REQUIRE(second->wait_for("worker 1: epoch 2", 60s));
  second->signal(SIGKILL);
  CHECK(second->wait(60s).exit_code == 128 + SIGKILL);
  REQUIRE(chief->wait_for("worker 0: epoch 5", 60s));  // it goes on
  second = job.start("worker", 1);
  REQUIRE(second->wait_for("worker 1: epoch ", 60s));
  server->signal(SIGKILL);
  CHECK(server->wait(60s).exit_code == 128 + SIGKILL);
  server = job.start("ps", 0);
  std::ofstream(job.gate()) << "open";
  const Finished of_chief = chief->wait(120s), of_second = second->wait(120s);
  CAPTURE(of_chief.output);
  CAPTURE(of_second.output);
  CHECK(of_chief.exit_code == 0);
  CHECK(of_second.exit_code == 0);
  CHECK(of_chief.output.find("worker 0: epoch 10") != std::string::npos);
  CHECK(of_second.output.find("worker 1: epoch 1\n") == std::string::npos);  // not anew
  CHECK(result_of(of_chief) == result_of(of_second));
  CHECK(std::stod(result_of(of_chief).substr(7)) < 0.2);
  const Finished of_server = server->wait(60s);
  CAPTURE(of_server.output);
  CHECK(of_server.exit_code == 0);
  CHECK(of_server.output.find("goes on from its backup") != std::string::npos);
  CHECK(of_server.output.find("all workers have finished") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(job.folder.path() + "/ps-0.lockstep"));
}

TEST_CASE("served: the launcher starts servers beside workers, and again those that are killed") {
  const TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  Process launcher({test_program("integration_served"), "--workers", "2", "--servers", "2",
                    "--restarts", "2", folder.path(), "10", "20", gate});
  REQUIRE(launcher.wait_for("[worker 1] worker 1: epoch 2", 60s));
  const auto processes = children_of(launcher.pid());  // workers, then servers
  REQUIRE(processes.size() == 4);
  ::kill(processes[3], SIGKILL);
  REQUIRE(launcher.wait_for("goes on from its backup", 60s));
  ::kill(processes[1], SIGKILL);
  REQUIRE(
      launcher.wait_for("worker 1 ended (killed by signal 9 (Killed)) and is started again", 60s));
  std::ofstream(gate) << "open";
  const Finished finished = launcher.wait(120s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(finished.output.find("server 1 ended (killed by signal 9 (Killed)) and is started again") !=
        std::string::npos);
  const auto result = [&](const std::string& worker) {
    const auto at = finished.output.find("[worker " + worker + "] worker " + worker + ": loss ");
    REQUIRE(at != std::string::npos);
    const auto begin = finished.output.find("weights ", at);
    return finished.output.substr(begin, finished.output.find('\n', begin) - begin);
  };
  CHECK(result("0") == result("1"));
  for (const char* server : {"[server 0] ", "[server 1] "})
    CHECK(finished.output.find(std::string(server) + "lockstep: ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/ps-0.lockstep"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/ps-1.lockstep"));
}

TEST_CASE("served: a worker that is stopped is killed by the launcher, and started again") {
  const TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  Process launcher({test_program("integration_served"), "--workers", "2", "--servers", "1",
                    "--restarts", "1", folder.path(), "6", "5", gate, "6"});
  REQUIRE(launcher.wait_for("[worker 1] worker 1: epoch 5", 60s));
  const auto processes = children_of(launcher.pid());  // workers, then the server
  REQUIRE(processes.size() == 3);
  ::kill(processes[1], SIGSTOP);
  CHECK(
      launcher.wait_for("worker 1 was lost to server 0 (has been silent for 6 s), but its process "
                        "still exists: it is killed and started again",
                        60s));
  std::ofstream(gate) << "open";
  const Finished finished = launcher.wait(120s);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
}

TEST_CASE("served: two jobs cannot have one backup_dir; the later one is told who has it") {
  const Job job;
  const auto server = job.start("ps", 0);
  const auto chief = job.start("worker", 0), second = job.start("worker", 1);
  REQUIRE(chief->wait_for("worker 0: epoch 5", 60s));
  const Job other{.shared_folder = job.folder.path()};
  const Finished refused = other.start("ps", 0)->wait(60s);
  CAPTURE(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("backup_dir '" + job.folder.path() +
                            "' is in use by another job (process " +
                            std::to_string(server->pid())) != std::string::npos);
  std::ofstream(job.gate()) << "open";
  const Finished of_chief = chief->wait(120s), of_second = second->wait(120s);
  CHECK(of_chief.exit_code == 0);
  CHECK(result_of(of_chief) == result_of(of_second));
  CHECK(server->wait(60s).exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(job.folder.path() + "/ps-0.lockstep"));
  CHECK_FALSE(std::filesystem::exists(job.folder.path() + "/ps-0.lockstep.lock"));
}

TEST_CASE(
    "served: a job with the backup of one of two servers says what to remove, and then runs") {
  const TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  const std::vector<std::string> command{test_program("integration_served"),
                                         "--workers",
                                         "2",
                                         "--servers",
                                         "2",
                                         folder.path(),
                                         "6",
                                         "5",
                                         gate};
  {
    Process killed(command);
    REQUIRE(killed.wait_for("[worker 1] worker 1: epoch 5", 60s));
  }
  for (const char* const kind : {"", ".previous"})
    std::filesystem::remove(folder.path() + "/ps-1.lockstep" + kind);
  const std::string left = folder.path() + "/ps-0.lockstep";
  const Finished refused = run_process(command, {}, 120s);
  CAPTURE(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("remove '" + left + "', '" + left + ".previous' to begin anew") !=
        std::string::npos);
  CHECK(std::filesystem::exists(left));
  for (const char* const kind : {"", ".previous"}) std::filesystem::remove(left + kind);
  std::ofstream(gate) << "open";
  const Finished anew = run_process(command, {}, 120s);
  CAPTURE(anew.output);
  CHECK(anew.exit_code == 0);
  CHECK(anew.output.find("worker 0: epoch 1\n") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(left));
}

TEST_CASE("served: a server without a backup that is started again is known as such by all") {
  const Job job{.has_backup = false};
  auto server = job.start("ps", 0);
  const auto chief = job.start("worker", 0), second = job.start("worker", 1);
  REQUIRE(chief->wait_for("worker 0: epoch 2", 60s));
  server->signal(SIGKILL);
  CHECK(server->wait(60s).exit_code == 128 + SIGKILL);
  server = job.start("ps", 0);
  std::ofstream(job.gate()) << "open";
  for (const auto* const worker : {&chief, &second}) {
    const Finished finished = (*worker)->wait(60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 138);
    CHECK(finished.output.find("since it has no backup") != std::string::npos);
  }
  // It is as good as a new one: workers that begin anew train with it to the end.
  const auto next_chief = job.start("worker", 0), next_second = job.start("worker", 1);
  for (const auto* const worker : {&next_chief, &next_second}) {
    const Finished finished = (*worker)->wait(120s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(finished.output.find(": epoch 1\n") != std::string::npos);
  }
  const Finished of_server = server->wait(60s);
  CAPTURE(of_server.output);
  CHECK(of_server.exit_code == 0);
  for (const char* worker : {"worker 0", "worker 1"})
    CHECK(of_server.output.find(std::string(worker) +
                                " is turned away: this server was started again, without what it "
                                "held before") != std::string::npos);
  CHECK(of_server.output.find("; the server waits for those that it can serve") !=
        std::string::npos);
  CHECK(of_server.output.find("it may come back") == std::string::npos);
}
