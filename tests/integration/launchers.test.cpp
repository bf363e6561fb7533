// The program under launchers that are not lockstep's: each gives it its place, and the run is the
// same to the last bit.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"
#include "support/slurm.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// "loss=... parameters_crc32c=..." of the final line.
std::string final_of(const std::string& output) {
  const std::string mark = "final: ";
  const auto at = output.find(mark);
  return at == std::string::npos
             ? "none"
             : output.substr(at + mark.size(), output.find('\n', at) - at - mark.size());
}

/// That of as many workers under lockstep's own launcher.
std::string expected(int workers, const Words& options = {}) {
  const TemporaryFolder folder;
  Words command{test_program("integration_survivor"), "--workers", std::to_string(workers),
                folder.path()};
  command.insert(command.end(), options.begin(), options.end());
  const Finished finished = run_process(command);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 0);
  return final_of(finished.output);
}

bool wait_for(const std::string& path, const std::string& text, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!contains(file_text(path), text)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

/// One process of two, whose place stands in variables.
std::unique_ptr<Process> by_hand(int rank, const std::string& folder, const Words& options,
                                 const std::string& address) {
  Words command{test_program("integration_survivor"), folder};
  command.insert(command.end(), options.begin(), options.end());
  return std::make_unique<Process>(command, Environment{{"LOCKSTEP_RANK", std::to_string(rank)},
                                                        {"LOCKSTEP_WORLD_SIZE", "2"},
                                                        {"LOCKSTEP_MEETING_ADDRESS", address}});
}

std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ::bind(socket, reinterpret_cast<sockaddr*>(&name), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  ::close(socket);
  return "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
}

}  // namespace

TEST_SUITE("launchers") {
  TEST_CASE("processes that know one address meet there, and verbose 2 says who placed them") {
    const TemporaryFolder folder;
    const std::string address = free_address();
    const auto second = by_hand(1, folder.path(), {}, address);
    const Finished first = by_hand(0, folder.path(), {"verbose=2"}, address)->wait(60s);
    CAPTURE(first.output);
    CHECK(first.exit_code == 0);
    CHECK(second->wait(60s).exit_code == 0);
    CHECK(final_of(first.output) == expected(2));
    CHECK(contains(first.output,
                   "; cluster: from LOCKSTEP_RANK (LOCKSTEP_RANK=0, LOCKSTEP_WORLD_SIZE=2, "));
  }

  TEST_CASE("with rejoin, a process that was killed meets the others again, rank 0 too") {
    const std::string undisturbed = expected(2, {"epochs=3", "steps=20"});
    for (const std::size_t victim : {1u, 0u}) {
      CAPTURE(victim);
      const TemporaryFolder folder;
      const std::string address = free_address();
      const Words options{"epochs=3", "steps=20", "step_ms=50", "rejoin=1"};
      std::unique_ptr<Process> ranks[2];
      for (const int rank : {0, 1}) ranks[rank] = by_hand(rank, folder.path(), options, address);
      for (const auto& rank : ranks) REQUIRE(rank->wait_for("training from update", 60s));
      ranks[victim]->signal(SIGKILL);
      ranks[victim] = by_hand(static_cast<int>(victim), folder.path(), options, address);
      const Finished chief = ranks[0]->wait(60s);
      CAPTURE(chief.output);
      CHECK(chief.exit_code == 0);
      CHECK(ranks[1]->wait(60s).exit_code == 0);
      CHECK(final_of(chief.output) == undisturbed);
    }
  }

  TEST_CASE(
      "a launcher inside of another, and --workers inside of either, are refused by their "
      "variables") {
    const Environment both{
        {"RANK", "1"},        {"WORLD_SIZE", "4"},           {"MASTER_ADDR", "a"},
        {"MASTER_PORT", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
    const TemporaryFolder folder;
    const Finished nested =
        run_process({test_program("integration_survivor"), folder.path()}, both);
    CAPTURE(nested.output);
    CHECK(nested.exit_code == 2);
    for (const char* part : {"RANK=1", "WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0"})
      CHECK(contains(nested.output, part));
    const Environment torchrun(both.begin(), both.begin() + 4);
    const Finished workers = run_process(
        {test_program("integration_survivor"), "--workers", "2", folder.path()}, torchrun);
    CAPTURE(workers.output);
    CHECK(workers.exit_code == 2);
    CHECK(contains(workers.output, "torchrun (RANK=1, WORLD_SIZE=4"));
  }
}

TEST_SUITE("launchers [needs mpirun]") {
  TEST_CASE("mpirun, without MPI in the program: two jobs at once") {
    if (!has_programs("mpirun, without MPI in the program", {"mpirun"})) return;
    const Environment as_root{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                              {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    const TemporaryFolder folders[2];
    std::unique_ptr<Process> jobs[2];
    for (const std::size_t i : {0u, 1u})
      jobs[i] =
          std::make_unique<Process>(Words{find_program("mpirun"), "--oversubscribe", "-n", "3",
                                          test_program("integration_survivor"), folders[i].path()},
                                    as_root);
    const std::string alike = expected(3);
    for (const auto& job : jobs) {
      const Finished finished = job->wait(60s);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 0);
      CHECK(final_of(finished.output) == alike);
    }
  }
}

TEST_SUITE("launchers [needs torchrun]") {
  TEST_CASE(
      "torchrun --no-python: a worker that is killed is started again with the others, and the run "
      "resumed") {
    if (!has_programs("torchrun --no-python", {"torchrun"})) return;
    const TemporaryFolder folder;
    const std::string script = "if [ $RANK = 1 ] && [ ! -e " + folder.path("killed") +
                               " ]; then touch " + folder.path("killed") +
                               "; (sleep 1; kill -9 $$) & fi; exec " +
                               test_program("integration_survivor") + " " + folder.path("backup") +
                               " epochs=3 steps=20 step_ms=20 freq=5";
    const Finished finished =
        run_process({find_program("torchrun"), "--standalone", "--nproc-per-node", "3",
                     "--max-restarts", "1", "--no-python", "/bin/sh", "-c", script});
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(std::filesystem::exists(folder.path("killed")));
    CHECK(final_of(finished.output) == expected(3, {"epochs=3", "steps=20"}));
  }
}

TEST_SUITE("launchers [needs slurm]") {
  TEST_CASE("srun -n 4, and a batch job that is told to stop, saves, is queued again and goes on") {
    const char* const test = "Slurm";
    if (!has_programs(test, {"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol",
                             "scancel", "sinfo", "squeue"}))
      return;
    Slurm slurm;
    if (!slurm.is_up()) return skip(test, "slurmd and slurmctld that run jobs, mostly as root");

    const Finished four = slurm.run(
        {"srun", "-n", "4", test_program("integration_survivor"), slurm.path("four"), "verbose=2"});
    CAPTURE(four.output);
    CHECK(four.exit_code == 0);
    CHECK(contains(four.output, "cluster: from Slurm (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=4, "));
    CHECK(final_of(four.output) == expected(4));

    // Two jobs side by side, for the two ways in which Slurm tells of the end.
    struct Job {
      std::string name, script, signal;
      Words told;  // what Slurm does by itself some time before the job's time is over
      std::string number{};
    };
    const std::string program = test_program("integration_survivor");
    const std::string options = " epochs=3 steps=20 step_ms=$((SLURM_RESTART_COUNT > 0 ? 0 : 50))";
    Job jobs[] = {
        {"tasks",
         "srun " + program + " " + slurm.path("tasks.backup") + options + "\ncode=$?\n",
         "SIGTERM",
         {"scancel", "--signal=TERM"}},  // --signal=TERM@120
        {"batch",
         "srun " + program + " " + slurm.path("batch.backup") + options +
             " &\nstep=$!\ntrap 'told=1; kill -USR1 $step' USR1\nwait $step\ncode=$?\n"
             "[ -z \"$told\" ] || { wait $step; code=$?; }\n",
         "SIGUSR1",
         {"scancel", "--batch", "--signal=USR1"}},  // --signal=B:USR1@120
    };
    const auto output_of = [&](const Job& job) { return slurm.path(job.name + ".output"); };
    for (Job& job : jobs) {
      std::ofstream(slurm.path(job.name + ".sh"))
          << "#!/bin/sh\n#SBATCH --ntasks=2 --requeue --open-mode=append --output="
          << output_of(job) << "\n"
          << job.script
          << "echo \"the step ended with $code\"\n"
             "[ $code != 143 ] || scontrol requeue $SLURM_JOB_ID\nexit $code\n";
      const Finished submitted = slurm.run({"sbatch", "--parsable", slurm.path(job.name + ".sh")});
      CAPTURE(submitted.output);
      REQUIRE(submitted.exit_code == 0);
      job.number = submitted.output.substr(0, submitted.output.find_first_of(";\n"));
    }
    for (const Job& job : jobs) {
      REQUIRE(wait_for(output_of(job), "training from update 0", 60s));
      Words told = job.told;
      told.push_back(job.number);
      CHECK(slurm.run(told).exit_code == 0);
    }
    for (const Job& job : jobs) CHECK(wait_for(output_of(job), "the step ended with 143", 60s));
    const std::string alike = expected(2, {"epochs=3", "steps=20"});
    for (const Job& job : jobs) {
      const auto has_ended = [&] {
        return contains(file_text(output_of(job)), "the step ended with 0");
      };
      // A job that is queued again waits two minutes, unless Slurm takes an earlier start.
      Finished earlier;
      for (int i = 0; i < 200 && !has_ended(); ++i) {
        earlier = slurm.run({"scontrol", "update", "jobid=" + job.number, "starttime=now"});
        std::this_thread::sleep_for(1s);
      }
      const std::string text = file_text(output_of(job));
      const std::string state = slurm.run({"scontrol", "show", "job", job.number}).output;
      CAPTURE(text);
      CAPTURE(earlier.output);
      CAPTURE(state);
      CHECK(contains(text, "fit: stopped by " + job.signal));
      CHECK(has_ended());
      CHECK(final_of(text) == alike);
    }
  }
}
