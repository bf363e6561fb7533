// measure RUNS NAME COMMAND...: runs the command RUNS times and prints a row of a Markdown table:
// the name, the time, and the memory of the largest process that the command started (a compiler's
// driver starts the compiler).

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: measure RUNS NAME COMMAND...\n");
    return 2;
  }
  std::vector<double> seconds;
  for (int run = 0; run < std::atoi(argv[1]); ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
      execvp(argv[3], argv + 3);
      std::perror(argv[3]);
      _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "measure: the command failed: %s\n", argv[2]);
      return 1;
    }
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  std::printf("| %s | %.1f (%.1f to %.1f) | %.0f |\n", argv[2], median, seconds.front(),
              seconds.back(), static_cast<double>(usage.ru_maxrss) / 1000);
}
