// A Slurm of one node, for the time of a test.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/process.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

namespace lockstep_test {

/// The path of a program, found by PATH, in the folders of system programs, and beside the Python
/// that LOCKSTEP_PYTHON names; empty if there is none.
inline std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  const char* const python = std::getenv("LOCKSTEP_PYTHON");
  const std::string beside = python == nullptr ? "" : python;
  std::istringstream folders(std::string(path == nullptr ? "" : path) +
                             ":/usr/sbin:/sbin:" + beside.substr(0, beside.find_last_of('/') + 1));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && ::access((folder + "/" + name).c_str(), X_OK) == 0)
      return folder + "/" + name;
  return {};
}

/// For a test case in a suite "[needs ...]": false, said aloud, when a program is missing.
inline bool has_programs(std::string_view test, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (find_program(name).empty()) {
      skip(test, "the program " + name);
      return false;
    }
  return true;
}

/// slurmctld and slurmd with a munged of their own. The node has more cores than the machine may
/// have.
class Slurm {
 public:
  Slurm() {
    const std::string socket = folder_.path("munge.socket");
    start_munge(socket);
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    const std::string name = std::string(host).substr(0, std::string_view(host).find('.'));
    const std::string user = ::getuid() == 0 ? "root" : std::to_string(::getuid());
    std::ofstream(folder_.path("slurm.conf"))
        << "ClusterName=test\nSlurmctldHost=" << name
        << "(127.0.0.1)\nSlurmctldPort=" << free_port() << "\nSlurmdPort=" << free_port()
        << "\nSlurmUser=" << user << "\nSlurmdUser=" << user
        << "\nAuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket=" << socket
        << "\nStateSaveLocation=" << folder_.path() << "/state\nSlurmdSpoolDir=" << folder_.path()
        << "/spool\nSlurmctldPidFile=" << folder_.path()
        << "/slurmctld.pid\nSlurmdPidFile=" << folder_.path()
        << "/slurmd.pid\nSlurmctldLogFile=" << folder_.path()
        << "/slurmctld.log\nSlurmdLogFile=" << folder_.path()
        << "/slurmd.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/"
           "none\nSelectType=select/cons_tres\n"
           "SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\nJobRequeue=1\nKillWait=20\n"
           "SlurmdParameters=config_overrides\nNodeName="
        << name
        << " NodeAddr=127.0.0.1 CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1 State=UNKNOWN\n"
        << "PartitionName=p Nodes=" << name << " Default=YES MaxTime=10 State=UP\n";
    for (const char* each : {"state", "spool"})
      std::filesystem::create_directory(folder_.path(each));
    controller_ = std::make_unique<Process>(
        std::vector<std::string>{find_program("slurmctld"), "-D"}, environment());
    node_ = std::make_unique<Process>(std::vector<std::string>{find_program("slurmd"), "-D"},
                                      environment());
  }
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;
  ~Slurm() {
    if (!answers_) return;
    (void)run({"scancel", "--full", "--signal=KILL", "--user=" + std::to_string(::getuid())});
    (void)run({"scancel", "--user=" + std::to_string(::getuid())});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end &&
           run({"squeue", "--noheader"}).output.find_first_not_of(" \n") != std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  /// Whether it runs a job; waits half a minute for a node that takes one.
  [[nodiscard]] bool is_up() {
    const std::chrono::seconds each(10);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      if (run({"sinfo", "--noheader", "--format=%t"}, each).output.starts_with("idle")) {
        answers_ = true;
        return run({"srun", "-n", "1", "true"}, std::chrono::seconds(30)).exit_code == 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return false;
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] Environment environment() const {
    return {{"SLURM_CONF", folder_.path("slurm.conf")}};
  }
  Finished run(std::vector<std::string> command,
               std::chrono::seconds limit = std::chrono::seconds(60)) const {
    command.front() = find_program(command.front());
    return run_process(command, environment(), limit);
  }

 private:
  void start_munge(const std::string& socket) {
    const std::string key = folder_.path("munge.key");
    std::ofstream(key) << "the key of one test, which all of its processes know by this file";
    std::filesystem::permissions(key, std::filesystem::perms::owner_read);
    // (By force, as the folder is this user's alone.)
    munge_ = std::make_unique<Process>(std::vector<std::string>{
        find_program("munged"), "--foreground", "--force", "--key-file=" + key,
        "--socket=" + socket, "--pid-file=" + folder_.path("munged.pid"),
        "--log-file=" + folder_.path("munged.log"), "--seed-file=" + folder_.path("munged.seed")});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end && !std::filesystem::exists(socket))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  static int free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    ::bind(socket, reinterpret_cast<sockaddr*>(&name), size);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
    ::close(socket);
    return ntohs(name.sin_port);
  }

  lockstep_test::TemporaryFolder folder_;
  std::unique_ptr<Process> munge_, controller_, node_;
  bool answers_ = false;
};

}  // namespace lockstep_test
