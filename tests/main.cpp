// The main function of every test program. Beside doctest's options it takes
//   --mnist-dir DIR   the folder of MNIST's four IDX files (or set LOCKSTEP_MNIST_DIR)
// and it fails if no test case passed the filters: a misspelt filter must not look like success. It
// ends with 77 if all test cases were skipped (support/skip.hpp).

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "support/skip.hpp"

namespace {

int test_cases_run = 0;

struct CountTestCases : doctest::IReporter {
  explicit CountTestCases(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override { ++test_cases_run; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("count", 1, CountTestCases);

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--mnist-dir") continue;
    if (i + 1 == argc) {
      std::cerr << "--mnist-dir needs a folder\n";
      return 2;
    }
    setenv("LOCKSTEP_MNIST_DIR", argv[++i], 1);
  }
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;  // --help, --list-test-cases, ...
  if (test_cases_run == 0) {
    std::cerr << "no test case passed the filters\n";
    return 1;
  }
  const int skipped = lockstep_test::skipped_test_cases;
  if (skipped > 0)
    std::cout << "SKIPPED: " << skipped << " of " << test_cases_run << " test cases, see above\n";
  return result == 0 && skipped == test_cases_run ? 77 : result;
}
