// Files that are not held in memory: .npy, .npz, shards of tokens, lines, CSV.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/npy.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/fixed_length_records.hpp"
#include "lockstep/datasets/image_sets.hpp"
#include "lockstep/datasets/npy.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "lockstep/datasets/token_shard.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

std::vector<std::uint8_t> from_hex(std::string_view digits) {
  std::vector<std::uint8_t> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
  return bytes;
}

struct Files {
  TemporaryFolder folder;
  std::string npy(std::string_view digits, const std::string& name = "a.npy") const {
    return folder.write(name, from_hex(digits));
  }
  std::string text(const std::string& content, const std::string& name = "a.txt") const {
    return folder.write(name, {content.begin(), content.end()});
  }
};

template <class F>
std::string error_of(F f) {
  return message_of<ls::DataError>(f);
}

/// "12 34 7": up to three numbers, and how many there are.
struct ParseNumbers {
  void operator()(std::string_view line, ls::Sample<float>& sample) const {
    for (std::size_t f = 0; !line.empty(); ++f) {
      int number = 0;
      const auto end = std::from_chars(line.data(), line.data() + line.size(), number).ptr;
      sample.x[f] = static_cast<float>(number);
      sample.y[0] += 1;
      line.remove_prefix(std::min(line.size(), static_cast<std::size_t>(end - line.data()) + 1));
    }
  }
};

}  // namespace

TEST_SUITE("npy") {
  TEST_CASE("every type that NumPy writes becomes float and double") {
    const Files files;
    namespace g = golden_npy;
    for (const std::string_view digits : {g::of_i1, g::of_u2, g::of_i2, g::of_f2, g::of_u4,
                                          g::of_i4, g::of_f4, g::of_u8, g::of_i8, g::of_f8})
      CHECK(row_batches(ls::from_npy(files.npy(digits)).batch(3)) ==
            RowBatches{{{0, 1}, {3, 100}, {7, 2}}});
    CHECK(row_batches(ls::from_npy(files.npy(g::of_b1)).batch(3)) ==
          RowBatches{{{0, 1}, {1, 1}, {1, 1}}});
    auto floats = ls::from_npy(files.npy(g::bytes)).batch(3);
    CHECK(floats.sample_shape() == std::vector<std::size_t>{2, 2});
    floats.begin({});
    floats.next();
    CHECK(Read<float>(floats).x(2, 3) == 220.0f);
    CHECK(Read<float>(floats).x.padding_is(0.0f));
  }
  TEST_CASE("samples and targets, seeking and two workers, also from an archive") {
    const Files files;
    const std::string x = files.npy(golden_npy::bytes, "x.npy"),
                      y = files.npy(golden_npy::labels, "y.npy");
    CHECK(row_batches(ls::from_npy(x, y).batch(2)) ==
          RowBatches{{{0, 20, 40, 60, 4}, {80, 100, 120, 140, 5}}, {{160, 180, 200, 220, 6}}});
    check_stage(ls::from_npy(x, y).shuffle(3).repeat(9).batch(4));
    const std::string archive = files.npy(golden_npy::archive, "a.npz");
    CHECK(row_batches(
              ls::from_npy(ls::NpyArray(archive, "x"), ls::NpyArray(archive, "y")).batch(3)) ==
          RowBatches{{{0, 1, 7}, {2, 3, 8}, {4, 5, 9}}});
  }
  TEST_CASE("Fortran's order, and headers of Python 2") {
    const Files files;
    CHECK(row_batches(ls::from_npy(files.npy(golden_npy::fortran)).batch(2)) ==
          RowBatches{{{0, 1, 2}, {3, 4, 5}}});
    const ls::NpyArray cube(files.npy(golden_npy::fortran_3d));
    CHECK(cube.sample_shape() == std::vector<std::size_t>{2, 3});
    CHECK(row_batches(ls::from_npy(cube).batch(4)) == RowBatches{{{0, 1, 2, 3, 4, 5},
                                                                  {6, 7, 8, 9, 10, 11},
                                                                  {12, 13, 14, 15, 16, 17},
                                                                  {18, 19, 20, 21, 22, 23}}});
    check_stage(ls::from_npy(cube).shuffle(4).repeat(9).batch(3));
    CHECK(row_batches(ls::from_npy(files.npy(golden_npy::python2)).batch(3)) ==
          RowBatches{{{0, 1}, {2, 3}, {4, 5}}});
  }
  TEST_CASE("files that stand for others are refused by every reader") {
    const Files files;
    const std::string pointer =
        files.text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n\n", "p");
    const std::string packed = files.text(std::string("\x1f\x8b\x08\0ab", 6), "p.gz");
    const auto refused = [&](const std::string& path, std::string_view words) {
      CHECK(contains(error_of([&] { (void)ls::TokenShard(path, {.sequence_length = 1}); }), words));
      CHECK(contains(error_of([&] { (void)ls::LineFile(path); }), words));
      CHECK(contains(error_of([&] { (void)ls::RecordFile(path, {.record_bytes = 2}); }), words));
      CHECK(contains(error_of([&] { (void)ls::CsvRecords(path, {.features = {{"a"}}}); }), words));
      CHECK(contains(error_of([&] { (void)ls::NpyArray(path); }), words));
      CHECK(contains(error_of([&] { (void)ls::NpyArray(path, "x"); }), words));
    };
    refused(pointer, "is a Git LFS pointer");
    refused(packed, "is compressed with gzip: decompress it first (gunzip)");
    CHECK(contains(error_of([&] { (void)ls::read_idx(pointer); }), "; it is a Git LFS pointer"));
  }
  TEST_CASE("what cannot be read is refused with its reason") {
    const Files files;
    const auto error = [&](std::string_view digits) {
      const std::string path = files.npy(digits);
      return error_of([&] { (void)ls::from_npy(path); });
    };
    CHECK(contains(error(golden_npy::structured),
                   "it is a structured array, [('x', '<f4'), ('y', '<f8')]: save each of its "
                   "fields as a separate array"));
    CHECK(contains(error(golden_npy::text), "got '<U1' (texts)"));
    CHECK(contains(error(golden_npy::archive), "the entry is no .npy file; it is a zip file"));
    CHECK(contains(error_of([&] {
                     (void)ls::from_npy(files.text("version https://git-lfs.github.com/spec/v1\n"));
                   }),
                   " is a Git LFS pointer, not the file that it stands for: run git lfs pull"));
    CHECK(contains(error(golden_npy::single), "the array is a single number"));
    CHECK(contains(error(golden_npy::labels.substr(0, golden_npy::labels.size() - 2)),
                   "cannot have 23 bytes"));
    CHECK(contains(error(golden_npy::labels.substr(0, 60)), "the header is cut off"));
    CHECK(contains(error(""), "is no .npy file"));
    CHECK(contains(error_of([&] { (void)ls::from_npy(files.folder.path("none.npy")); }),
                   "cannot be opened: No such"));
    CHECK(contains(error_of([&] { (void)ls::from_npy(files.folder.path()); }),
                   "cannot be read: Is a directory"));
    const std::string pipe = files.folder.path("pipe.npy");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(contains(error_of([&] { (void)ls::from_npy(pipe); }), "cannot be read: Invalid"));
    const std::string archive = files.npy(golden_npy::archive, "a.npz");
    CHECK(contains(error_of([&] { (void)ls::NpyArray(archive, "z"); }),
                   "there is no array 'z', but: x.npy, y.npy"));
    const std::string compressed = files.npy(golden_npy::compressed, "c.npz");
    CHECK(contains(error_of([&] { (void)ls::NpyArray(compressed, "x"); }),
                   "is compressed and cannot be read in parts"));

    // Of a shape whose size overflows, and of one that the file does not have.
    const std::vector<std::uint8_t> bytes = from_hex(golden_npy::labels);
    const std::string header(bytes.begin(), bytes.end());
    const auto with_shape = [&](const std::string& shape) {
      std::string changed = header;
      const std::size_t at = changed.find("(3,)");
      changed.replace(at, shape.size(), shape);
      return error_of([&] { (void)ls::from_npy(files.text(changed, "b.npy")); });
    };
    CHECK(contains(with_shape("(4,)"), "the shape (4) cannot have 24 bytes"));
    CHECK(contains(with_shape("(18446744073709551615,2), }"), "cannot have 24 bytes"));
  }
  TEST_CASE("samples and targets of different numbers") {
    const Files files;
    const std::string x = files.npy(golden_npy::labels, "x.npy");
    const std::vector<std::uint8_t> three = from_hex(golden_npy::labels);
    std::string shorter(three.begin(), three.end() - 8);
    shorter.replace(shorter.find("(3,)"), 4, "(2,)");
    const std::string path = files.text(shorter, "two.npy");
    CHECK(error_of([&] { (void)ls::from_npy(x, path); }) ==
          "from_npy: every sample needs one target, got 3 samples and 2 targets");
  }
}

TEST_SUITE("token shards") {
  std::string shard(int first, int tokens, std::size_t width = 2) {
    std::string bytes;
    for (int i = first; i < first + tokens; ++i)
      for (std::size_t b = 0; b < width; ++b) bytes += static_cast<char>(i >> (8 * b) & 255);
    return bytes;
  }

  TEST_CASE("the target is the sample moved by one; an incomplete last sample is left out") {
    const Files files;
    const std::string path = files.text(shard(60'000, 9));
    CHECK(row_batches(ls::from_token_shards({path}, {.sequence_length = 3}).batch(4)) ==
          RowBatches{{{60'000, 60'001, 60'002, 60'001, 60'002, 60'003},
                      {60'003, 60'004, 60'005, 60'004, 60'005, 60'006}}});
    CHECK(ls::TokenShard(path, {.sequence_length = 8}).size() == 1);
    CHECK(ls::TokenShard(path, {.sequence_length = 9}).size() == 0);
    CHECK(ls::TokenShard(path, {.sequence_length = 3, .stride = 1}).size() == 6);
    CHECK(ls::TokenShard(path, {.sequence_length = 3, .stride = 5}).size() == 2);
    CHECK(ls::TokenShard(files.text("", "empty"), {.sequence_length = 3}).size() == 0);
    CHECK(ls::TokenShard(path, {.sequence_length = 3}).tokens() == 9);
  }
  TEST_CASE("other widths, a header, several shards, seeking and two workers") {
    const Files files;
    const ls::TokenShardOptions wide{.sequence_length = 2, .bytes_per_token = 4, .header_bytes = 5};
    CHECK(row_batches(
              ls::from_token_shards({files.text("12345" + shard(1 << 20, 3, 4))}, wide).batch(4)) ==
          RowBatches{{{1048576, 1048577, 1048577, 1048578}}});
    CHECK(row_batches(ls::from_token_shards({files.text(shard(250, 3, 1))},
                                            {.sequence_length = 2, .bytes_per_token = 1})
                          .batch(4)) == RowBatches{{{250, 251, 251, 252}}});
    const std::string one = files.text(shard(0, 20), "one"),
                      two = files.text(shard(1000, 30), "two");
    check_stage(
        ls::from_token_shards({one, two}, {.sequence_length = 4, .stride = 2}).shuffle(8).batch(3));
  }
  TEST_CASE("bad arguments and files") {
    const Files files;
    const std::string path = files.text("123");
    CHECK(contains(error_of([&] { (void)ls::TokenShard(path, {.sequence_length = 1}); }),
                   "has 3 bytes, which are not a header of 0 and tokens of 2 bytes"));
    CHECK_THROWS_AS((void)ls::TokenShard(path, {.sequence_length = 1, .header_bytes = 4}),
                    ls::DataError);
    CHECK_THROWS_AS((void)ls::TokenShard(path, {}), ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::TokenShard(path, {.sequence_length = 1, .bytes_per_token = 3}),
                    ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::TokenShard(files.folder.path("none"), {.sequence_length = 1}),
                    ls::DataError);
  }
}

TEST_SUITE("text lines") {
  TEST_CASE("a sample for each line") {
    const Files files;
    const std::string path = files.text("a head\n1 2\r\n\n3\n4 5 6", "lines");
    const ls::SampleSizes sizes{.sample_size = 3, .target_size = 1};
    CHECK(row_batches(ls::from_text_lines({path}, ParseNumbers{}, sizes, {.skip = 1}).batch(4)) ==
          RowBatches{{{1, 2, 0, 2}, {3, 0, 0, 1}, {4, 5, 6, 3}}});
    CHECK(ls::LineFile(path).size() == 4);
    CHECK(ls::LineFile(path, 0, false).size() == 5);
    CHECK(ls::LineFile(path, 9).size() == 0);
    CHECK(ls::LineFile(path)[1] == "1 2");
    CHECK(ls::LineFile(files.text("")).size() == 0);
    CHECK_THROWS_AS((void)ls::LineFile(files.folder.path("none")), ls::DataError);
    const std::string other = files.text("7\n8 9\n", "others");
    check_stage(ls::from_text_lines({path, other}, ParseNumbers{}, sizes, {.skip = 1})
                    .shuffle(3)
                    .repeat(2)
                    .batch(2));
    const std::string plain = files.text("7 1\n\n8 9\n", "plain");
    CHECK(row_batches(
              ls::from_text_lines({plain}, ParseNumbers{}, {.sample_size = 2, .target_size = 1})
                  .batch(4)) == RowBatches{{{7, 1, 2}, {8, 9, 2}}});
  }
}

TEST_SUITE("fixed-length records") {
  const auto bytes = [](std::span<const std::uint8_t> record, auto& sample) {
    for (std::size_t i = 0; i < record.size(); ++i)
      (i < sample.x.size() ? sample.x[i] : sample.y[i - sample.x.size()]) = record[i];
  };

  TEST_CASE("header, records and footer; several files, seeking and two workers") {
    const Files files;
    const std::string one = files.text("HABCDEFFF", "one"), two = files.text("HGHIFF", "two");
    const ls::FixedLengthRecordsOptions options{.record_bytes = 3,
                                                .sizes = {.sample_size = 2, .target_size = 1},
                                                .header_bytes = 1,
                                                .footer_bytes = 2};
    const auto records = ls::from_fixed_length_records({one, two}, bytes, options);
    CHECK(row_batches(records.batch(3)) == RowBatches{{{65, 66, 67}, {68, 69, 70}, {71, 72, 73}}});
    check_stage(records.shuffle(3).repeat(3).batch(2));
    const ls::FixedLengthRecordsOptions single{.record_bytes = 1, .sizes = {.sample_size = 1}};
    CHECK(row_batches(ls::zip(ls::from_fixed_length_records({files.text("ab", "x")}, bytes, single),
                              ls::from_fixed_length_records({files.text("12", "y")}, bytes, single))
                          .batch(2)) == RowBatches{{{97, 49}, {98, 50}}});
  }
  TEST_CASE("bad arguments and files") {
    const Files files;
    const std::string path = files.text("12345");
    CHECK_THROWS_AS((void)ls::RecordFile(path, {}), ls::ConfigurationError);
    CHECK(contains(error_of([&] { (void)ls::RecordFile(path, {.record_bytes = 2}); }),
                   "has 5 bytes, which are not a header of 0, records of 2 and a footer of 0"));
    CHECK_THROWS_AS((void)ls::RecordFile(path, {.record_bytes = 1, .header_bytes = 6}),
                    ls::DataError);
    CHECK_THROWS_AS(
        (void)ls::RecordFile(path, {.record_bytes = 1, .header_bytes = 3, .footer_bytes = 3}),
        ls::DataError);
  }
}

TEST_SUITE("from_csv") {
  TEST_CASE("columns by name, missing ones, categories, several files") {
    const Files files;
    const std::string one = files.text(
        "\xEF\xBB\xBF"
        "age,\"port\",fare,name\n1,A,2.5,\"Smith, \"\"J\"\"\nline\"\n,B,3,b\n\n9,A,-1,c",
        "one");
    const std::string two = files.text("age,port,fare,name\n4,C,1e2,d\n", "two");
    const ls::CsvRecordsOptions options{
        .features = {{"fare"},
                     {"age", -5.0},
                     {.name = "port", .vocabulary = ls::Vocabulary({"A", "B"})}},
        .targets = {{"age", 0.0}}};
    const auto table = ls::from_csv({one, two}, options);
    CHECK(row_batches(table.batch(4)) ==
          RowBatches{{{2.5, 1, 1, 1}, {3, -5, 2, 0}, {-1, 9, 1, 9}, {100, 4, 0, 4}}});
    CHECK(table.num_files() == 2);
    check_stage(table.shuffle(4).repeat(2).batch(3));
    const std::string plain = files.text("1;2\n3;4\n", "plain");
    CHECK(row_batches(ls::from_csv({plain}, {.features = {{"1"}},
                                             .targets = {{"0"}},
                                             .csv = {.separator = ';', .header = false}})
                          .batch(2)) == RowBatches{{{2, 1}, {4, 3}}});
  }
  TEST_CASE("errors name file, line and column") {
    const Files files;
    const auto error = [&](const std::string& text, std::vector<ls::CsvColumn> features) {
      const std::string path = files.text(text, "t.csv");
      return error_of(
          [&] { (void)row_batches(ls::from_csv({path}, {.features = features}).batch(2)); });
    };
    CHECK(contains(error("a,b\n1,2\n", {{"c"}}), "t.csv: there is no column 'c', but: a, b"));
    CHECK(contains(error("a,b\n1,2\n3\n", {{"a"}}), "t.csv, line 3: expected 2 fields, got 1"));
    CHECK(contains(error("a,b\n1,2\nx,3\n", {{"a"}}),
                   "line 3, column 'a': expected a number, got 'x'"));
    CHECK(contains(error("a,b\n1,2\n,3\n", {{"a"}}),
                   "got nothing; say which number stands for a missing one"));
    CHECK(contains(error("", {{"a"}}), "is empty; expected a line of names"));
    CHECK_THROWS_AS((void)ls::CsvRecords(files.text("a\n"), {.features = {}}),
                    ls::ConfigurationError);
    CHECK_THROWS_AS((void)ls::CsvRecords(files.folder.path("none"), {.features = {{"a"}}}),
                    ls::DataError);
  }
}
