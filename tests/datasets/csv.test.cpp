#include "lockstep/datasets/csv.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/csv.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/datasets/detail/csv_scanner.hpp"
#include "support/messages.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

std::string refusal(const std::string& text, ls::CsvOptions options = {}) {
  return message_of<ls::DataError>([&] { (void)ls::CsvTable(text, "t.csv", options); });
}

/// What both readers of tables make of a text, row by row, or the message with which both refuse it;
/// they must agree.
struct Reading {
  std::vector<Numbers> rows;
  std::string refusal;
};
Reading read_by_both(const std::string& text, const Texts& columns, ls::CsvOptions options = {},
                     std::optional<double> missing = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.csv", {text.begin(), text.end()});
  Reading table, records;
  try {
    const ls::CsvTable all = ls::read_csv(path, options);
    table.rows.resize(all.rows());
    for (const std::string& column : columns) {
      const Numbers numbers = all.numbers(column, missing);
      for (std::size_t row = 0; row < numbers.size(); ++row)
        table.rows[row].push_back(numbers[row]);
    }
  } catch (const ls::DataError& error) {
    table = {{}, error.what()};
  }
  try {
    ls::CsvRecordsOptions of_records{.features = {}, .targets = {}, .csv = options};
    for (const std::string& column : columns)
      of_records.features.push_back({.name = column, .missing = missing});
    records.rows = row_batches(ls::from_csv({path}, of_records).batch(100)).at(0);
  } catch (const ls::DataError& error) {
    records = {{}, error.what()};
  } catch (const std::out_of_range&) {  // no batch
  }
  CHECK(table.rows == records.rows);
  CHECK(table.refusal == records.refusal);
  if (const std::size_t at = table.refusal.find(path); at != std::string::npos)
    table.refusal.replace(at, path.size(), "t.csv");
  return table;
}

}  // namespace

TEST_SUITE("CSV by both readers") {
  const std::vector<Numbers> one_to_four{{1, 2}, {3, 4}};

  TEST_CASE("numbers as NumPy and pandas read them") {
    for (const golden::csv::Number& expected : golden::csv::numbers) {
      CAPTURE(expected.text);
      const Reading got = read_by_both("a,b\n\"" + std::string(expected.text) + "\",1\n", {"a"},
                                       {.missing_values = {}});
      if (expected.is_number) {
        REQUIRE(got.refusal == "");
        CHECK(got.rows[0][0] == expected.value);
        CHECK(std::signbit(got.rows[0][0]) == std::signbit(expected.value));
      } else {
        CHECK(
            contains(got.refusal, "CSV file t.csv, line 2, column 'a': expected a number, got '"));
      }
    }
  }
  TEST_CASE("missing numbers are those of the option") {
    const std::string text = "a,b\n1,NA\n2, nan \n3,?\n4,\n";
    const ls::CsvOptions options{.missing_values = {"NA", "nan", "?", ""}};
    CHECK(read_by_both(text, {"b"}, options, -7).rows ==
          std::vector<Numbers>{{-7}, {-7}, {-7}, {-7}});
    CHECK(
        read_by_both(text, {"b"}, options).refusal ==
        "CSV file t.csv, line 2, column 'b': expected a number, got 'NA'; say which number stands "
        "for a missing one");
    CHECK(contains(read_by_both(text, {"b"}, {}, -7).refusal,
                   "line 4, column 'b': expected a number, got '?'"));
    CHECK(
        contains(read_by_both("a\nNA\n", {"a"}, {.missing_values = {""}}, -7).refusal, "got 'NA'"));
    // What CSVLogger writes for a figure that is not there, or not finite.
    CHECK(read_by_both("epoch,loss,val_loss\n0,nan,NA\n", {"loss", "val_loss"}, {}, -1).rows ==
          std::vector<Numbers>{{-1, -1}});
  }
  TEST_CASE("names of columns: blanks around them, and two that are the same") {
    CHECK(read_by_both("a, b\t\n1, 2\n", {"a", "b"}).rows == std::vector<Numbers>{{1, 2}});
    CHECK(read_by_both("a,b,b\n1,2,3\n", {"a"}).refusal ==
          "CSV file t.csv, line 1: columns 2 and 3 are both named 'b': give each a different name");
    CHECK(contains(read_by_both("a,b,c, a\n1,2,3,4\n", {"b"}).refusal,
                   "columns 1 and 4 are both named 'a'"));
    CHECK(read_by_both("a,,\n1,,\n", {"a"}).rows == std::vector<Numbers>{{1}});  // not named
    CHECK(read_by_both("1,1\n2,2\n", {"0", "1"}, {.header = false}).rows.size() == 2);
  }
  TEST_CASE("byte order marks where joined files begin") {
    const std::string mark = "\xEF\xBB\xBF";
    const auto plain = [&](const std::string& text) {
      return read_by_both(text, {"0", "1"}, {.header = false});
    };
    CHECK(plain(mark + "1,2\n" + mark + "3,4\n").rows == one_to_four);
    CHECK(plain(mark + mark + "\n" + mark + "\n1,2\r\n\r\n" + mark + "\"3\",4\n" + mark).rows ==
          one_to_four);
    CHECK(read_by_both(mark + "a,b\n1,2\n" + mark + "3,4", {"a", "b"}).rows == one_to_four);
    CHECK(plain("\"" + mark + "\",2").refusal ==
          "CSV file t.csv, line 1, column '0': expected a number, got '?'");
    CHECK(contains(plain("1,2" + mark + "3,4").refusal, "line 1: a byte order mark within a line"));
    CHECK(plain(mark).refusal == "CSV file t.csv is empty; expected a record");
  }
  TEST_CASE("what is no text, or another one, is said by name") {
    const auto refusal = [](std::string_view text) {
      return read_by_both(std::string(text), {"a"}).refusal;
    };
    using namespace std::string_view_literals;
    CHECK(refusal("\x1f\x8b\x08\0\0"sv) ==
          "CSV file t.csv is no table in text: it is compressed with gzip: decompress it first "
          "(gunzip)");
    CHECK(contains(refusal("\xFF\xFE"
                           "a\0,\0b\0\n\0"sv),
                   "it is a text in UTF-16: save it as UTF-8"));
    CHECK(contains(refusal("a\0,\0b\0\n\0"sv),
                   "line 1: a byte 0: the file is no text, or one in UTF-16"));
    CHECK(contains(refusal("a\n1\n\"\0\"\n"sv), "line 3: a byte 0"));
    CHECK(contains(refusal("a\n1\n2\0\n"sv), "line 3: a byte 0"));
    CHECK(contains(refusal("PK\3\4\x14"sv), "it is a zip file"));
    CHECK(contains(refusal("<!DOCTYPE html><html>"sv), "it is a page of HTML"));
    CHECK(contains(message_of<ls::DataError>([] {
                     ls::CsvTable("version https://git-lfs.github.com/spec/v1\noid\n", "t.csv");
                   }),
                   "it is a Git LFS pointer"));
    CHECK(read_by_both("BMI\n1\n", {"BMI"}).rows == std::vector<Numbers>{{1}});
  }
  TEST_CASE("the separator is an option, and another one is guessed for the message") {
    CHECK(read_by_both("a;b\n1;2\n3;4\n", {"a", "b"}, {.separator = ';'}).rows == one_to_four);
    CHECK(read_by_both("a\tb\n1\t2\n3\t4\n", {"a", "b"}, {.separator = '\t'}).rows == one_to_four);
    CHECK(read_by_both("a;b\n1;2\n", {"a"}).refusal ==
          "CSV file t.csv: there is no column 'a', but: a;b; the separator seems to be ';', see "
          "CsvOptions::separator");
    CHECK(contains(read_by_both("a\tb\n1\t2\n", {"a"}).refusal, "the separator seems to be a tab"));
    CHECK(contains(read_by_both("a,b\n1,2\n", {"a"}, {.separator = ';'}).refusal,
                   "the separator seems to be ','"));
    CHECK(contains(read_by_both("a;b\n1,5;2\n", {"0"}, {.header = false}).refusal,
                   "line 2: expected 1 fields, got 2; the separator seems to be ';'"));
    CHECK(contains(read_by_both("1;2\n", {"0"}, {.header = false}).refusal,
                   "got '1;2'; the separator seems to be ';'"));
    CHECK(read_by_both("a\nb\n", {"c"}).refusal ==
          "CSV file t.csv: there is no column 'c', but: a");
    for (const char separator : {'"', '\n', '\r', '\0'}) {
      CHECK_THROWS_AS(ls::CsvTable("a\n", "t.csv", {.separator = separator}),
                      ls::ConfigurationError);
      const TemporaryFolder folder;
      const std::string path = folder.write("t.csv", {'a'});
      CHECK_THROWS_AS(ls::CsvRecords(path, {.features = {{"a"}}, .csv = {.separator = separator}}),
                      ls::ConfigurationError);
    }
  }
  TEST_CASE("messages: texts of the file are cut, and harm no terminal") {
    CHECK(contains(read_by_both("a,b\n1,\x1b[31mred\x07\n", {"b"}).refusal, "got '?[31mred?'"));
    const std::string large(1'000'000, 'x');
    CHECK(read_by_both("a\n" + large + "\n", {"a"}).refusal.size() < 1000);
    CHECK(read_by_both(large + "," + large + "\n1,2\n", {"a"}).refusal.size() < 1000);
    std::string names = "a0";
    for (int i = 1; i < 1000; ++i) names += ",a" + std::to_string(i);
    CHECK(contains(read_by_both(names + "\n", {"b"}).refusal, ", a39 and 960 more"));
  }
}

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
  const std::string all = lockstep_test::file_text(path);
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
