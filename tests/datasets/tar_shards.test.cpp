#include "lockstep/datasets/tar_shards.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/stage_testing.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "support/process.hpp"
#include "support/python.hpp"
#include "support/tar_files.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using tar::member, tar::end_blocks, tar::put_octal, tar::put_checksum;

namespace {

std::string write(const TemporaryFolder& folder, const std::string& name,
                  const std::string& bytes) {
  return folder.write(name, {bytes.begin(), bytes.end()});
}

struct Numbers {
  void operator()(const ls::TarSample& files, ls::Sample<float>& sample) const {
    sample.x[0] = static_cast<float>(files.number("cls"));
    sample.x[1] = static_cast<float>(files["bin"].size());
    sample.y[0] = 2 * sample.x[0];
  }
};
constexpr ls::SampleSizes sizes{.sample_size = 2, .target_size = 1};

/// "key: ext=text ext=text", for each sample.
std::vector<std::string> listed(const std::string& path) {
  const ls::TarFile file(path);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const ls::TarSample sample = file[i];
    all.push_back(sample.key() + ":");
    for (const auto& part : sample.members())
      all.back() += " " + part.extension + "=" + std::string(sample.text(part.extension));
  }
  return all;
}

std::string error_of(const std::string& path) {
  return message_of<ls::DataError>([&] { ls::TarFile file(path); });
}

const std::string long_name(140, 'n'), longest_name(300, 'm');

/// What the programs below write: names that are short, long, and in other letters.
const std::vector<std::string> expected{"a/0001: cls=1 seg.png=mask txt=one", "a/0002: cls=2",
                                        "b/" + long_name + ": cls=3 txt=three",
                                        "b/gr\u00fc\u00dfe: cls=4"};

}  // namespace

TEST_CASE("tar: samples are files of one name up to the first dot") {
  const TemporaryFolder folder;
  const std::string path =
      write(folder, "a.tar",
            member("./x/", "", '5') + member("./x/1.CLS", "7\n") + member("./x/1.seg.png", "abc") +
                member("x/README", "no sample") + member("x/._1.cls", "hidden") +
                member("x/2.cls", std::string(512, '5')) + member("x.y/3.cls", "") + end_blocks);
  CHECK(listed(path) == std::vector<std::string>{"x/1: cls=7\n seg.png=abc",
                                                 "x/2: cls=" + std::string(512, '5'),
                                                 "x.y/3: cls="});
  const ls::TarFile file(path);
  CHECK(file[0].number("cls") == 7);
  CHECK(file[0].has("seg.png"));
  CHECK_FALSE(file[0].has("png"));
  CHECK(message_of<ls::DataError>([&] { (void)file[0]["jpg"]; }) ==
        "from_tar_shards: " + path +
            ": sample 'x/1' at byte 512 has no file '.jpg'; it has cls, seg.png");
  CHECK(contains(message_of<ls::DataError>([&] { (void)file[2].number("cls"); }),
                 "sample 'x.y/3' at byte 5632: '.cls' has '', which is no whole number"));
  CHECK(contains(message_of<ls::DataError>([&] { (void)file[1].number("cls"); }),
                 "which is no whole number"));
  CHECK(listed(write(folder, "empty.tar", end_blocks)).empty());
}

TEST_CASE("tar: damage is found before memory is taken, and said with file and offset") {
  const TemporaryFolder folder;
  const std::string first = member("1.cls", "1"), second = member("2.cls", "22");
  const std::string whole = first + second + end_blocks;
  const auto error = [&](const std::string& bytes) {
    return error_of(write(folder, "bad.tar", bytes));
  };
  CHECK(contains(error(first + second),
                 "bad.tar, at byte 2048: the file ends without the two blocks of zeros"));
  CHECK(contains(error(whole.substr(0, 1024 + 100)),
                 "at byte 1024: the file is cut off in a header"));
  CHECK(contains(error(whole.substr(0, 1536 + 1)),
                 "at byte 1024: the file is cut off: expected 2 bytes of data, got 1"));
  CHECK(contains(error(whole.substr(0, 1536 + 100)), "cut off behind the data"));
  CHECK(contains(error(whole + first), "at byte 3072: something follows the end"));
  std::string flipped = whole;
  flipped[1024] = '3';
  CHECK(contains(error(flipped), "at byte 1024: the checksum of the header does not fit"));
  CHECK(contains(error("\x1F\x8B" + std::string(2000, 'z')), "compressed"));
  std::string huge = first;
  huge.replace(124, 12, "777777777777");
  put_checksum(huge);
  CHECK(contains(error(huge + end_blocks), "expected 68719476735 bytes of data"));
  huge.replace(124, 12, std::string("\xFF") + std::string(11, '\xFF'));
  put_checksum(huge);
  CHECK(contains(error(huge + end_blocks), "a size that no file has"));
  huge.replace(124, 12, "1x          ");
  put_checksum(huge);
  CHECK(contains(error(huge + end_blocks), "the size '1x"));
  CHECK(contains(error(first + member("1.jpg", "") + second + member("1.png", "") + end_blocks),
                 "the files of sample '1' do not stand together: make the tar with --sort=name"));
  CHECK(contains(error(first + member("1.cls", "2") + end_blocks),
                 "at byte 1024: sample '1' has two files '.cls'"));
  CHECK(contains(error(member("1.cls", "", '1') + end_blocks), "'1.cls' is a hard link"));
  CHECK(contains(error(member("1.cls", "", '2') + end_blocks), "'1.cls' is a symbolic link"));
  CHECK(contains(error(member("1.cls", "", 'S') + end_blocks), "'1.cls' is of type 'S'"));
  CHECK(contains(error(member("x", "27 GNU.sparse.realsize=100\n", 'x') + first + end_blocks),
                 "sparse"));
  for (const char* records : {"9999 path=1.cls\n", "5 a=b\n", "11 path=a.b", "7 abcd\n", "\n",
                              "13 size=12a\n", "99999999999999999999999 path=a\n"})
    CHECK(contains(error(member("x", records, 'x') + first + end_blocks),
                   "an extended header is damaged"));
  CHECK(contains(error(member("x", "14 path=1.cls\n", 'g') + first + end_blocks),
                 "a header for all files has the key 'path'"));
  CHECK(contains(error(member("x", "14 path=1.cls\n", 'x') + end_blocks),
                 "expected a header behind an extended one"));
  CHECK(contains(error(member("x", std::string((1 << 20) + 1, 'a'), 'L') + first + end_blocks),
                 "at most 1048576 are expected"));
  CHECK(contains(error_of(folder.path("none.tar")), "cannot be opened"));
  CHECK(listed(write(folder, "comment.tar", member("x", "19 comment=0123456\n", 'g') + whole)) ==
        std::vector<std::string>{"1: cls=1", "2: cls=22"});
  // Any changed byte of a header is an error or no change of what is read.
  for (std::size_t at = 0; at < 512; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    CHECK(error(changed) != "");
  }
}

TEST_CASE("tar: samples of several files, shuffled, sought, each worker its share") {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  int number = 0;
  for (const int samples : {3, 5, 1, 4}) {
    std::string bytes;
    for (int i = 0; i < samples; ++i, ++number) {
      const std::string key = "s" + std::to_string(number);
      bytes += member(key + ".bin", std::string(static_cast<std::size_t>(100 * number), 'b')) +
               member(key + ".cls", std::to_string(number));
    }
    paths.push_back(write(folder, std::to_string(paths.size()) + ".tar", bytes + end_blocks));
  }
  const auto samples = ls::from_tar_shards(paths, Numbers{}, sizes);
  CHECK(samples.cardinality() == 13);
  CHECK(samples.num_files() == 4);
  auto batches = samples.batch(13);
  batches.begin({});
  REQUIRE(batches.next() == 13);
  const Read<double> read(batches);
  for (std::size_t i = 0; i < 13; ++i) {
    CHECK(read.x(i, 0) == static_cast<double>(i));
    CHECK(read.x(i, 1) == static_cast<double>(100 * i));
    CHECK(read.y(i, 0) == static_cast<double>(2 * i));
  }
  CHECK(batches.sample_name(batches.sample_indices()[4]) == "sample 1 of " + paths[1]);
  auto mine = samples.batch(4);
  mine.shard_files(2, 1);
  CHECK(row_batches(mine) == RowBatches{{{3, 300, 6}, {4, 400, 8}},
                                        {{5, 500, 10}, {6, 600, 12}},
                                        {{7, 700, 14}, {9, 900, 18}},
                                        {{10, 1000, 20}, {11, 1100, 22}},
                                        {{12, 1200, 24}}});
  check_stage(ls::AnyDataset(samples.shuffle(5).batch(3)));
  auto shuffled = samples.shuffle(13).batch(3);
  const Batches all = batches_of(shuffled, {.seed = 2});
  auto sought = shuffled;
  sought.begin({.seed = 2});
  sought.seek(3);
  CHECK(rest(sought) == Batches(all.begin() + 3, all.end()));

  using Net = ls::Sequential<ls::Input<2>, ls::Dense<1>>;
  for (const ls::AutoShardPolicy policy : {ls::AutoShardPolicy::data, ls::AutoShardPolicy::file}) {
    const auto weights = on_tcp_workers<std::vector<float>>(2, 1, "", [&](TcpStrategy& strategy) {
      auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                    ls::SGD{.learning_rate = 1e-7});
      model.fit(samples.shuffle(13).batch(4).with_options({.auto_shard_policy = policy}),
                {.epochs = 2, .verbose = 0});
      return model.get_weights()[0].values;
    });
    CHECK(weights[0] == weights[1]);
    if (policy != ls::AutoShardPolicy::data) continue;
    ls::OneDeviceStrategy alone;
    auto model = ls::compile<Net>(alone, {.seed = 1}, ls::MeanSquaredError{},
                                  ls::SGD{.learning_rate = 1e-7});
    model.fit(samples.shuffle(13).batch(4), {.epochs = 2, .verbose = 0});
    for (std::size_t i = 0; i < weights[0].size(); ++i)
      CHECK(model.get_weights()[0].values[i] == doctest::Approx(weights[0][i]).epsilon(1e-5));
  }
}

TEST_CASE("tar: images and their classes, by a decoder of the caller's") {
  const TemporaryFolder folder;
  const std::string path = write(folder, "images.tar",
                                 member("1.cls", "3") + member("1.jpeg", "\x05") +
                                     member("2.cls", "4") + member("2.png", "\x09") + end_blocks);
  const auto decode = [](std::span<const std::byte> bytes, const std::string& name) {
    CHECK(contains(name, "images.tar: sample '"));
    return ls::DecodedImage{
        .height = 1,
        .width = 1,
        .rgb = std::vector<std::uint8_t>(3, static_cast<std::uint8_t>(bytes.front()))};
  };
  auto images = ls::from_tar_images({path}, {.height = 2, .width = 1}, decode).batch(2);
  CHECK(images.sample_shape() == std::vector<std::size_t>{2, 1, 3});
  images.begin({});
  REQUIRE(images.next() == 2);
  const Read<float> read(images);
  for (std::size_t f = 0; f < 6; ++f) {
    CHECK(read.x(0, f) == 5);
    CHECK(read.x(1, f) == 9);
  }
  CHECK(read.y(0, 0) == 3);
  CHECK(read.y(1, 0) == 4);
  CHECK(ls::from_tar_images({path}, {.label = ""}, decode).target_size() == 0);
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { (void)ls::from_tar_images({path}, {.channels = 2}, decode); }),
                 "1 or 3 channels, got 256 x 256 x 2"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { (void)ls::from_tar_images({path}, {.image = {}}, decode); }),
                 ".image has no extension"));
}

TEST_SUITE("GNU tar [needs tar]") {
  TEST_CASE("tar: files of GNU tar in all of its formats") {
    const TemporaryFolder folder;
    const auto shell = [&](const std::string& script) {
      const Finished finished = run_process({"/usr/bin/env", "bash", "-ec", script, folder.path()});
      INFO(finished.output);
      REQUIRE(finished.exit_code == 0);
    };
    shell(
        "cd \"$0\"; mkdir -p w/a w/b; cd w; printf 1 > a/0001.cls; printf one > a/0001.txt; "
        "printf mask > a/0001.seg.png; printf 2 > a/0002.cls; printf 3 > b/" +
        long_name + ".cls; printf three > b/" + long_name +
        ".txt; printf 4 > $'b/gr\\u00fc\\u00dfe.cls'; "
        "for format in gnu oldgnu pax posix; do "
        "tar --sort=name --format=$format -cf ../$format.tar a b; done; "
        "rm b/n*; for format in v7 ustar; do "
        "tar --sort=name --format=$format -cf ../$format.tar a b; done");
    std::vector<std::string> sorted = expected;
    std::swap(sorted[2], sorted[3]);  // "g" comes before "n"
    for (const char* format : {"gnu", "oldgnu", "pax", "posix"}) {
      CAPTURE(format);
      CHECK(listed(folder.path(std::string(format) + ".tar")) == sorted);
    }
    sorted.pop_back();
    for (const char* format : {"v7", "ustar"}) {
      CAPTURE(format);
      CHECK(listed(folder.path(std::string(format) + ".tar")) == sorted);
    }
  }
}

TEST_SUITE("tar files in Python [needs python]") {
  TEST_CASE("tar: files of Python's tarfile, as WebDataset writes them") {
    if (!has_python_modules("tar files of Python", "tarfile")) return;
    const TemporaryFolder folder;
    const Finished finished = run_python(R"py(
import io, sys, tarfile
long, longest = "n" * 140, "m" * 300
files = [("a/0001.cls", "1"), ("a/0001.seg.png", "mask"), ("a/0001.txt", "one"), ("a/0002.cls", "2"),
         ("b/" + long + ".cls", "3"), ("b/" + long + ".txt", "three"), ("b/gr\u00fc\u00dfe.cls", "4")]
for name, format in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
    with tarfile.open(f"{sys.argv[1]}/{name}.tar", "w", format=format, encoding="utf-8") as tar:
        for path, text in files + ([] if name == "ustar" else [(f"c/{longest}.cls", "5")]):
            if name == "ustar" and long in path:
                path = path.replace("n" * 140, "n" * 80 + "/" + "n" * 90)
            info = tarfile.TarInfo(path)
            data = text.encode()
            info.size, info.mtime = len(data), 1.5 if name == "pax" else 1
            tar.addfile(info, io.BytesIO(data))
# A size in a pax header, and in GNU's binary form.
with tarfile.open(f"{sys.argv[1]}/size.tar", "w", format=tarfile.PAX_FORMAT) as tar:
    info = tarfile.TarInfo("1.cls")
    info.size, info.pax_headers = 2, {"size": "2"}
    tar.addfile(info, io.BytesIO(b"77"))
)py",
                                         {folder.path()});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    std::vector<std::string> all = expected;
    all.push_back("c/" + longest_name + ": cls=5");
    CHECK(listed(folder.path("gnu.tar")) == all);
    CHECK(listed(folder.path("pax.tar")) == all);
    std::vector<std::string> split = expected;
    split[2] = "b/" + std::string(80, 'n') + "/" + std::string(90, 'n') + ": cls=3 txt=three";
    CHECK(listed(folder.path("ustar.tar")) == split);
    CHECK(listed(folder.path("size.tar")) == std::vector<std::string>{"1: cls=77"});
  }
}
