#include "lockstep/datasets/csv.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/support.hpp"
#include "lockstep/core/error.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

std::string refusal(const std::string& text, ls::CsvOptions options = {}) {
  return message_of<ls::DataError>([&] { (void)ls::CsvTable(text, "t.csv", options); });
}

}  // namespace

TEST_CASE("CsvTable: columns of texts and numbers") {
  const ls::CsvTable table("name,age\nann,31\nbob, -2.5e1 \n", "t.csv");
  CHECK(table.rows() == 2);
  CHECK(table.columns() == Texts{"name", "age"});
  CHECK(table.texts("name") == Texts{"ann", "bob"});
  CHECK(table.numbers("age") == Numbers{31, -25});
}

TEST_CASE("CsvTable: quotes, line ends, missing fields") {
  const ls::CsvTable table(
      "\xEF\xBB\xBF"
      "a,b,c\r\n\"x, y\",\"he said \"\"no\"\"\",\"two\nlines\"\r\n\r\n,,\n1,2,",
      "t.csv");
  CHECK(table.columns() == Texts{"a", "b", "c"});
  CHECK(table.rows() == 3);
  CHECK(table.texts("a") == Texts{"x, y", "", "1"});
  CHECK(table.texts("b") == Texts{"he said \"no\"", "", "2"});
  CHECK(table.texts("c") == Texts{"two\nlines", "", ""});
}

TEST_CASE("CsvTable: another separator, no names") {
  const ls::CsvTable table("1;2,5\n3;4", "t.csv", {.separator = ';', .header = false});
  CHECK(table.columns() == Texts{"0", "1"});
  CHECK(table.numbers("0") == Numbers{1, 3});
  CHECK(table.texts("1") == Texts{"2,5", "4"});
}

TEST_CASE("CsvTable: what is refused, with line and column") {
  CHECK(refusal("") == "CSV file t.csv is empty; expected a line of names");
  CHECK(refusal("a,b\n1,2\n3\n") == "CSV file t.csv, line 3: expected 2 fields, got 1");
  CHECK(refusal("a,b\n\"1\n\",2\n1,2,3\n") == "CSV file t.csv, line 4: expected 2 fields, got 3");
  CHECK(refusal("a\n\"1") == "CSV file t.csv, line 2: a quote is never closed");
  CHECK(contains(refusal("a\nx\"y\""), "line 2: a quote in the middle of a field"));
  CHECK(contains(refusal("a\n\"x\"y"),
                 "line 2: expected a separator or the line's end behind a quoted field, got 'y'"));
  const ls::CsvTable table("a,b\n1,\n\nx,2\ninf,3\n", "t.csv");
  const auto number_refusal = [&](const char* column) {
    return message_of<ls::DataError>([&] { (void)table.numbers(column); });
  };
  CHECK(number_refusal("a") == "CSV file t.csv, line 4, column 'a': expected a number, got 'x'");
  CHECK(number_refusal("b") ==
        "CSV file t.csv, line 2, column 'b': expected a number, got nothing; say which number "
        "stands for a missing one");
  CHECK(number_refusal("c") == "CSV file t.csv: there is no column 'c', but: a, b");
  CHECK(table.numbers("b", -1) == Numbers{-1, 2, 3});
}

TEST_CASE("CsvTable: categories by their numbers in a vocabulary") {
  const ls::CsvTable train("job\ncook\n\nbaker\ncook\n\"\"\n", "t.csv"),
      test("job\nbaker\npilot\n", "u.csv");
  const ls::Vocabulary jobs = train.vocabulary("job");
  CHECK(jobs.texts() == Texts{"baker", "cook"});
  CHECK(jobs.size() == 3);
  CHECK(train.categories("job", jobs) == Numbers{2, 1, 2, 0});
  CHECK(test.categories("job", jobs) == Numbers{1, 0});
}

TEST_CASE("read_csv: a file") {
  const TemporaryFolder folder;
  std::string text = "n\n";
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + "\n";
  folder.write("t.csv", std::vector<std::uint8_t>(text.begin(), text.end()));
  const ls::CsvTable table = ls::read_csv(folder.path("t.csv"));
  CHECK(table.rows() == 20'000);
  CHECK(table.numbers("n")[19'999] == 19'999);
  CHECK(contains(message_of<ls::DataError>([&] { (void)ls::read_csv(folder.path("u.csv")); }),
                 "u.csv cannot be opened"));
}
