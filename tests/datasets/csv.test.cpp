#include "lockstep/datasets/csv.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/support.hpp"
#include "golden/csv.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/datasets/detail/csv_scanner.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using namespace lockstep::testing;

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

namespace {

/// All records, each ending with \x1e, and their fields with \x1f; or "refused: " and why.
std::string records_of(std::string_view text) {
  const std::string name = "t.csv";
  ls::detail::CsvScanner scanner(text, name, ',');
  std::string all;
  Texts record;
  try {
    while (scanner.next(record)) {
      for (const std::string& field : record) all += field + "\x1f";
      all += "\x1e";
    }
  } catch (const ls::DataError& error) {
    return std::string("refused: ") + error.what();
  }
  return all;
}

/// Texts with the length of each before it, in 4 bytes, lowest first.
std::string with_lengths(const Texts& texts) {
  std::string all;
  for (const std::string& text : texts) {
    for (int byte = 0; byte < 4; ++byte)
      all += static_cast<char>(text.size() >> (8 * byte) & 0xFFU);
    all += text;
  }
  return all;
}
Texts without_lengths(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  Texts texts;
  for (std::size_t at = 0; at + 4 <= all.size();) {
    std::size_t size = 0;
    for (int byte = 0; byte < 4; ++byte)
      size |= std::size_t{static_cast<unsigned char>(all[at++])} << (8 * byte);
    texts.push_back(all.substr(at, size));
    at += size;
  }
  return texts;
}

/// Pieces of tables in any order, most of which are none.
std::string random_text(ls::RandomStream& random) {
  static constexpr std::string_view pieces[] = {
      "a",      "1.5", ",",   ",", "\n", "\r\n", "\"", "\"\"",    "\"x,y\"",
      "\"\n\"", ",\"", "\",", " ", "\t", ";",    "'",  "\xC3\xA9"};
  std::string text;
  for (std::uint64_t left = random.below(12); left > 0; --left)
    text += pieces[random.below(std::size(pieces))];
  return text;
}

constexpr const char* python_csv = R"py(
import csv, io, random, sys
def chunks(data):
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "little")
        yield data[at + 4:at + 4 + size].decode()
        at += 4 + size
def write(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode()
            file.write(len(data).to_bytes(4, "little") + data)
def flat(records):
    return "".join("".join(field + "\x1f" for field in record) + "\x1e" for record in records)
def read(text):
    try:
        return flat(r for r in csv.reader(io.StringIO(text, newline=""), strict=True) if r)
    except csv.Error as error:
        return "refused: " + str(error)
folder = sys.argv[1]
with open(folder + "/texts", "rb") as file:
    write(folder + "/read", map(read, chunks(file.read())))
random.seed(7)
texts, tables = [], []
for i in range(1000):
    field = lambda: "".join(random.choices(["a", "b c", ",", '"', "\n", "\r\n", " ", "\u00e9", ";"], k=random.randrange(5)))
    table = [[field() for _ in range(random.randrange(1, 5))] for _ in range(random.randrange(4))]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
               lineterminator=random.choice(["\n", "\r\n"])).writerows(table)
    texts.append(text.getvalue())
    tables.append(flat(table))
write(folder + "/written", texts)
write(folder + "/tables", tables)
)py";

}  // namespace

TEST_CASE("CSV: texts are read as Python's csv module reads them") {
  for (const golden::csv::Case& expected : golden::csv::cases) {
    CAPTURE(expected.text);
    const std::string got = records_of(expected.text);
    if (expected.records == nullptr)
      CHECK(got.starts_with("refused: "));
    else
      CHECK(got == expected.records);
  }
}

TEST_SUITE("CSV in Python [needs python]") {
  TEST_CASE("random texts are read as Python reads them, and tables as it writes them") {
    if (!has_python_modules("CSV of Python", "csv")) return;
    const TemporaryFolder folder;
    ls::RandomStream random(ls::RandomKey(11));
    Texts texts;
    for (int i = 0; i < 20'000; ++i) texts.push_back(random_text(random));
    std::ofstream(folder.path("texts"), std::ios::binary) << with_lengths(texts);
    const Finished finished = run_python(python_csv, {folder.path()});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);

    const Texts expected = without_lengths(folder.path("read"));
    REQUIRE(expected.size() == texts.size());
    int read = 0, refused = 0, stricter = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string got = records_of(texts[i]);
      // Python takes a quote within a field that has none around it as it is.
      if (contains(got, "a quote in the middle of a field")) {
        ++stricter;
        continue;
      }
      const bool is_refused = expected[i].starts_with("refused: ");
      ++(is_refused ? refused : read);
      CAPTURE(texts[i]);
      if (is_refused)
        CHECK(got.starts_with("refused: "));
      else
        CHECK(got == expected[i]);
    }
    CHECK(read > 3000);
    CHECK(refused > 1000);
    CHECK(stricter > 1000);

    const Texts written = without_lengths(folder.path("written"));
    const Texts tables = without_lengths(folder.path("tables"));
    REQUIRE(written.size() == 1000);
    REQUIRE(tables.size() == 1000);
    for (std::size_t i = 0; i < written.size(); ++i) {
      CAPTURE(written[i]);
      CHECK(records_of(written[i]) == tables[i]);
    }
  }
}
