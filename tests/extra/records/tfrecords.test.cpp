#include "lockstep/extra/records/tfrecords.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/support.hpp"
#include "golden/tfrecord.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/records/tfrecord_file.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::tfrecord;
using lockstep_test::contains;
using lockstep_test::Finished;
using lockstep_test::has_python_modules;
using lockstep_test::message_of;
using lockstep_test::run_python;
using lockstep_test::TemporaryFolder;

namespace {

std::string golden_in(const TemporaryFolder& folder) {
  return folder.write("golden.tfrecord", {std::begin(golden::file), std::end(golden::file)});
}

/// The samples and targets of a pass in batches of two, number by number.
template <class T, class P>
std::vector<T> numbers_of(const P& pipeline) {
  auto dataset = pipeline.batch(2);
  dataset.begin({});
  std::vector<T> numbers;
  ls::detail::Scratch samples, targets;
  while (const std::size_t count = dataset.next()) {
    const auto x = samples.view<T>(count, dataset.sample_size());
    const auto y = targets.view<T>(count, dataset.target_size());
    const std::size_t positions[] = {0, 1};
    dataset.read(std::span(positions).first(count), x, y);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t f = 0; f < x.features(); ++f) numbers.push_back(x(i, f));
      for (std::size_t f = 0; f < y.features(); ++f) numbers.push_back(y(i, f));
    }
  }
  return numbers;
}

}  // namespace

TEST_CASE("from_tfrecords: TensorFlow's file, with a feature for samples and one for targets") {
  const TemporaryFolder folder;
  const std::string path = golden_in(folder);
  const auto data =
      ls::from_tfrecords({path}, {.x = {.key = "image", .shape = {3, 1}}, .y = {{.key = "label"}}});
  CHECK(numbers_of<float>(data) ==
        std::vector<float>{0, 1.25, -2, -1, 0.5, 1.25, -2, 0, 1, 1.25, -2, 1});
  CHECK(data.batch(2).sample_shape() == std::vector<std::size_t>{3, 1});
  CHECK(data.batch(2).sample_name(1) == "sample 1 of " + path);

  using enum ls::FeatureEncoding;
  CHECK(numbers_of<double>(ls::from_tfrecords(
            {path, path}, {.x = {.key = "raw", .shape = {2}, .encoding = raw_uint8}})) ==
        std::vector<double>{0, 255, 1, 255, 2, 255, 0, 255, 1, 255, 2, 255});
  CHECK(numbers_of<double>(ls::from_tfrecords(
            {path}, {.x = {.key = "none", .default_value = 7}})) == std::vector<double>{7, 7, 7});
  CHECK(lockstep_test::samples_of(data.shuffle(3, 5)).size() == 3);
}

TEST_CASE("from_tfrecords: every encoding of decode_raw, and a function of one's own") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  {
    const auto bytes = [](auto number) {
      return std::string(reinterpret_cast<const char*>(&number), sizeof number);
    };
    ls::TFRecordWriter writer(path);
    writer.write(ls::Example()
                     .bytes("int32", {bytes(std::int32_t{-5})})
                     .bytes("int64", {bytes(std::int64_t{1} << 40)})
                     .bytes("float32", {bytes(0.5F)})
                     .bytes("float64", {bytes(0.1)})
                     .bytes("texts", {"ab", "c"}));
  }
  using enum ls::FeatureEncoding;
  const auto number = [&](const char* key, ls::FeatureEncoding encoding) {
    return numbers_of<double>(ls::from_tfrecords({path}, {.x = {.key = key, .encoding = encoding}}))
        .at(0);
  };
  CHECK(number("int32", raw_int32) == -5);
  CHECK(number("int64", raw_int64) == 1099511627776.0);
  CHECK(number("float32", raw_float32) == 0.5);
  CHECK(number("float64", raw_float64) == 0.1);
  const auto lengths =
      ls::from_tfrecords({path}, {.sample_shape = {2},
                                  .target_size = 1,
                                  .parse = [](const ls::ExampleView& example, auto x, auto y) {
                                    const auto texts = example.at("texts").bytes();
                                    for (std::size_t i = 0; i < x.size(); ++i)
                                      x[i] = static_cast<double>(texts.at(i).size());
                                    if (!y.empty()) y[0] = 9;
                                  }});
  CHECK(numbers_of<float>(lengths) == std::vector<float>{2, 1, 9});
}

TEST_CASE("from_tfrecords: errors name file, record and offset") {
  const TemporaryFolder folder;
  const std::string path = golden_in(folder);
  const auto refusal = [&](ls::FixedLenFeature x) {
    return message_of<ls::DataError>(
        [&] { (void)numbers_of<float>(ls::from_tfrecords({path}, {.x = std::move(x)})); });
  };
  const std::string place = "'" + path + "': record 0, at offset 0: ";
  CHECK(contains(refusal({.key = "image", .shape = {4}}),
                 place + "feature 'image': expected 4 numbers, got 3"));
  CHECK(contains(refusal({.key = "pixels"}),
                 place + "expected a feature 'pixels', the example has big, image"));
  CHECK(contains(refusal({.key = "raw", .encoding = ls::FeatureEncoding::raw_float32}),
                 place + "feature 'raw': expected 1 numbers of 4 bytes, got 2 bytes"));
  CHECK(contains(refusal({.key = "label", .encoding = ls::FeatureEncoding::raw_uint8}),
                 "got a list of ints"));
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { (void)ls::from_tfrecords({path}, {.x = {.key = ""}}); }),
                 "a feature has no key"));
  CHECK(contains(message_of<ls::ConfigurationError>([&] {
                   (void)ls::from_tfrecords({path}, {.x = {.key = "image", .shape = {2, 0}}});
                 }),
                 "a shape with the extent 0"));
}

TEST_SUITE("TFRecord in Python [needs python]") {
  TEST_CASE("TFRecord: TensorFlow reads what we write, and we read what it writes") {
    if (!has_python_modules("TFRecord files, both ways", "tensorflow")) return;
    const TemporaryFolder folder;
    const std::string ours = folder.path("ours.tfrecord"), theirs = folder.path("theirs.tfrecord");
    {
      ls::TFRecordWriter writer(ours);
      for (int i = 0; i < 50; ++i)
        writer.write(ls::Example()
                         .floats("x", {static_cast<float>(i), 0.5F})
                         .ints("y", {-i})
                         .bytes("text", {std::string(static_cast<std::size_t>(i) * 1000, 'a')})
                         .ints("empty", {}));
    }
    const Finished finished = run_python(R"py(
import sys, tensorflow as tf
spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64),
        "text": tf.io.FixedLenFeature([], tf.string), "empty": tf.io.VarLenFeature(tf.int64)}
count = 0
with tf.io.TFRecordWriter(sys.argv[2]) as writer:
    for i, record in enumerate(tf.data.TFRecordDataset(sys.argv[1])):
        e = tf.io.parse_single_example(record, spec)
        assert e["x"].numpy().tolist() == [i, 0.5] and e["y"] == -i and len(e["text"].numpy()) == 1000 * i
        assert len(e["empty"].values) == 0
        f = tf.train.Features(feature={
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[e["x"].numpy().tobytes()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i - 7]))})
        writer.write(tf.train.Example(features=f).SerializeToString())
        count += 1
assert count == 50
)py",
                                         {ours, theirs});
    REQUIRE_MESSAGE(finished.exit_code == 0, finished.output);
    const auto numbers = numbers_of<float>(ls::from_tfrecords(
        {theirs},
        {.x = {.key = "image", .shape = {2}, .encoding = ls::FeatureEncoding::raw_float32},
         .y = {{.key = "label"}}}));
    REQUIRE(numbers.size() == 150);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK(numbers[3 * i] == static_cast<float>(i));
      CHECK(numbers[3 * i + 1] == 0.5F);
      CHECK(numbers[3 * i + 2] == static_cast<float>(i) - 7);
    }
  }
}
