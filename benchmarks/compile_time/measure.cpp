// measure RUNS COMMAND...: runs the command RUNS times and prints the fewest user seconds that it
// took, and the memory in MB of the largest process that it started (a compiler's driver starts the
// compiler). User seconds, and the fewest: what else the machine does counts least there.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: measure RUNS COMMAND...\n");
    return 2;
  }
  double fewest = 1e9;
  long memory = 0;
  for (int run = 0; run < std::atoi(argv[1]); ++run) {
    rusage before{}, after{};
    getrusage(RUSAGE_CHILDREN, &before);
    const pid_t child = fork();
    if (child == 0) {
      execvp(argv[2], argv + 2);
      std::perror(argv[2]);
      _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "measure: the command failed: %s\n", argv[2]);
      return 1;
    }
    getrusage(RUSAGE_CHILDREN, &after);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    fewest = std::min(fewest, seconds(after.ru_utime) - seconds(before.ru_utime));
    memory = after.ru_maxrss;
  }
  std::printf("%.2f %ld\n", fewest, memory / 1000);
}
