// A program that trains nothing and misbehaves as its arguments say: the subject of
// launcher.test.cpp and run.test.cpp.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/cluster/cluster_from_environment.hpp"
#include "lockstep/cluster/launcher.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;

namespace {

/// What the workers do together: a sum, whose result each prints.
void sum_with_others(const ls::Cluster& known, int victim, int signal_number,
                     std::chrono::seconds timeout = std::chrono::seconds(30)) {
  ls::Rendezvous place;
  place.port = std::make_shared<ls::KeptPort>();
  const ls::Cluster cluster = ls::met(known, place.port);
  place.rank = cluster.rank();
  place.addresses = cluster.addresses();
  auto ring = ls::Ring<ls::Tcp>::connect(place, {.timeout = timeout});
  ls::detail::note_met();
  std::vector<float> values(1000, static_cast<float>(cluster.rank() + 1));
  ring.all_reduce(std::span(values));
  std::printf("sum %g\n", static_cast<double>(values[999]));
  std::fflush(stdout);
  if (cluster.rank() == victim) ::raise(signal_number);
  if (victim >= 0) ring.barrier();
  ring.close();
}

int work(int argc, char** argv) {
  const ls::Cluster cluster = ls::cluster_from_environment();
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "arguments") {
    for (int i = 1; i < argc; ++i) std::printf("argument %d: %s\n", i, argv[i]);
    std::printf("rank %d of %d\n", cluster.rank(), cluster.world_size());
  } else if (mode == "task") {
    std::printf("%s %d, with %zu workers and %zu servers\n", ls::to_string(cluster.task.type),
                cluster.task.index, cluster.spec.worker.size(), cluster.spec.ps.size());
    for (int i = 2; i < argc; ++i) std::printf("argument %d: %s\n", i, argv[i]);
  } else if (mode == "sum") {
    sum_with_others(cluster, -1, 0);
  } else if (mode == "kill") {
    sum_with_others(cluster, 1, SIGKILL);
  } else if (
      mode ==
      "once") {  // once [kill|stop] FILE: worker 1 has that accident, until the file is there
    const bool is_victim = cluster.rank() == 1 && ::access(argv[3], F_OK) != 0;
    if (is_victim) (void)::open(argv[3], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const bool stops = std::string_view(argv[2]) == "stop";
    sum_with_others(cluster, 1,
                    !is_victim ? 0
                    : stops    ? SIGSTOP
                               : SIGKILL,
                    std::chrono::seconds(stops ? 5 : 30));
  } else if (mode == "lines") {
    std::printf("whole line\n");
    std::printf("drawn\rdrawn again\n");
    std::fprintf(stderr, "an error\n");
    std::printf("%s\n", std::string(100'000, 'x').c_str());
    std::printf("no end");
  } else if (mode == "chatter") {
    for (;;) std::printf("a line, and the next one\n");
  } else if (mode == "code") {
    if (cluster.rank() == 1) return std::atoi(argv[2]);
    std::this_thread::sleep_for(std::chrono::seconds(60));
  } else if (mode == "name") {
    char name[64] = "";
    if (std::FILE* const file = std::fopen("/proc/self/comm", "r")) {
      (void)!std::fgets(name, sizeof name, file);
      std::fclose(file);
    }
    std::printf("name: %s", name);
  } else if (mode == "launch_without_file") {
    ::unlink(argv[0]);
    return ls::launch_workers({.workers = 1, .arguments = {argv[0], "name"}});
  } else if (mode == "open") {
    return ::open("/dev/null", O_WRONLY);
  } else if (mode == "tell") {
    for (int i = 0; i < 20; ++i) {
      std::printf("line %d\n", i);
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::fprintf(stderr, "told all\n");
  } else if (mode == "throw") {
    const std::string_view what = argc > 2 ? argv[2] : "";
    if (what == "configuration") throw ls::ConfigurationError("wrong configuration");
    if (what == "data") throw ls::DataError("wrong data");
    if (what == "lost") throw ls::CollectiveError({.failed_rank = 3, .reason = "is lost"});
    if (what == "memory") {
      rlimit limit{.rlim_cur = std::uint64_t{1} << 50, .rlim_max = RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &limit);
      throw std::bad_alloc();
    }
    if (what == "standard") throw std::runtime_error("something else");
    throw 7;
  } else if (mode == "descriptors") {
    int open = 0;
    for (int descriptor = 0; descriptor < 256; ++descriptor)
      open += ::fcntl(descriptor, F_GETFD) != -1;
    std::printf("%d descriptors\n", open);
  } else if (mode == "wait") {
    std::printf("waiting, process %d, group %d\n", static_cast<int>(::getpid()),
                static_cast<int>(::getpgrp()));
    std::fflush(stdout);
    if (argc > 2) ::signal(SIGTERM, SIG_IGN);
    std::this_thread::sleep_for(std::chrono::seconds(60));
  } else if (mode == "graceful") {
    static volatile std::sig_atomic_t stop = 0;
    ::signal(SIGTERM, [](int) { stop = stop + 1; });
    std::printf("waiting\n");
    std::fflush(stdout);
    for (int i = 0; i < 600 && stop == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::printf("stopped by %d signal\n", static_cast<int>(stop));
    return argc > 2 ? std::atoi(argv[2]) : 0;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ls::run(argc, argv, work); }
