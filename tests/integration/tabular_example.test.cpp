// The example on the table that it makes up, and on one of a file.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/example_runs.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;

TEST_CASE("tabular: learns, with equal bits on threads, on workers, and after it was killed") {
  const std::vector<std::string> replicas{"--epochs", "300",          "--replicas",
                                          "2",        "--batch-size", "64"};
  const std::string threads = run_example("tabular", replicas);
  CHECK(figure(threads, "auc") > 0.8);
  CHECK(run_example("tabular", {"--epochs", "300", "--workers", "2", "--batch-size", "32",
                                "--verbose", "0"}) == threads);
  const TemporaryFolder folder;
  CHECK(kill_and_resume("tabular", replicas, folder.path("backup")) == threads);
}

TEST_CASE("tabular: a file, and what is wrong in one") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& text) {
    return folder.write("table.csv", std::vector<std::uint8_t>(text.begin(), text.end()));
  };
  std::string table = "left,plan,country,age,balance,visits\n";
  for (int i = 0; i < 100; ++i)
    table += std::to_string(i % 2) + (i % 2 == 0 ? ",a,b,30,1,5\n" : ",\"c, d\",b,50,,5\n");
  CHECK(
      figure(run_example("tabular", {"--data", write(table), "--epochs", "5", "--batch-size", "8"}),
             "val_auc") == 1);
  const auto finished = lockstep_test::run_process(
      example_command("tabular", {"--data", write(table + "2,a,b,thirty,1,5\n")}));
  CHECK(finished.exit_code != 0);
  CHECK(
      finished.output.find("table.csv, line 102, column 'age': expected a number, got 'thirty'") !=
      std::string::npos);
}
