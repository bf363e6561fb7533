#include "lockstep/extra/records/tfrecord_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/records/example.hpp"
#include "lockstep/extra/records/protobuf.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/tfrecord.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::tfrecord;
using lockstep_test::contains;
using lockstep_test::file_text;
using lockstep_test::message_of;
using lockstep_test::TemporaryFolder;

namespace {

const std::string golden_file(reinterpret_cast<const char*>(golden::file), sizeof golden::file);

std::string write(const TemporaryFolder& folder, const std::string& bytes) {
  return folder.write("file", {bytes.begin(), bytes.end()});
}

ls::Example some_example(int i) {
  return ls::Example()
      .ints("label", {i - 1})
      .floats("image", {0.5F * static_cast<float>(i), 1.25F, -2})
      .bytes("raw", {std::string{static_cast<char>(i), '\xFF'}})
      .ints("big", {std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::min()});
}

/// What reading all of the file's records throws.
std::string refusal(const std::string& path) {
  return message_of<ls::DataError>([&] {
    const ls::TFRecordFile file(path);
    ls::TFRecordFile::Reader reader(file);
    for (std::int64_t i = 0; i < file.size(); ++i) (void)reader.read(i);
  });
}

}  // namespace

TEST_CASE("TFRecordWriter: the bytes that TensorFlow writes for the same examples") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a/b.tfrecord");
  {
    ls::TFRecordWriter writer(path);
    for (int i = 0; i < 2; ++i) writer.write(some_example(i));
  }
  {
    ls::TFRecordWriter writer(path, ls::TFRecordWriter::Mode::append);
    writer.write(some_example(2));
    writer.close();
  }
  CHECK(file_text(path) == golden_file);
  const std::uint64_t whole = ls::TFRecordFile(path).offset(2);
  std::filesystem::resize_file(path, whole + 5);  // as a process leaves it that is killed
  CHECK(contains(message_of<ls::DataError>(
                     [&] { ls::TFRecordWriter(path, ls::TFRecordWriter::Mode::append); }),
                 "record 2, at offset " + std::to_string(whole)));
  CHECK(file_text(path).size() == whole + 5);
  {
    ls::TFRecordWriter writer(path, whole);
    writer.write(some_example(2));
  }
  CHECK(file_text(path) == golden_file);
  ls::TFRecordWriter{path}.close();
  CHECK(file_text(path).empty());
  CHECK(ls::TFRecordFile(path).size() == 0);
}

TEST_CASE("TFRecordFile: the records of TensorFlow's file in any order, as examples") {
  const TemporaryFolder folder;
  const ls::TFRecordFile file(write(folder, golden_file));
  REQUIRE(file.size() == 3);
  ls::TFRecordFile::Reader reader(file);
  for (const int i : {2, 0, 1}) {
    const ls::ExampleView example(reader.read(i));
    CHECK(example.features().size() == 4);
    CHECK(example.at("label").ints() == std::vector<std::int64_t>{i - 1});
    CHECK(example.at("image").floats() ==
          std::vector<float>{0.5F * static_cast<float>(i), 1.25F, -2});
    CHECK(example.at("raw").bytes() ==
          std::vector<std::string_view>{std::string{static_cast<char>(i), '\xFF'}});
    CHECK(example.at("big").ints()[1] == std::numeric_limits<std::int64_t>::min());
    double numbers[3];
    example.at("image").read(numbers);
    CHECK(numbers[2] == -2);
    CHECK(example.find("other") == nullptr);
    CHECK(message_of<ls::DataError>([&] { (void)example.at("other"); }) ==
          "expected a feature 'other', the example has big, image, label, raw");
    CHECK(message_of<ls::DataError>([&] { (void)example.at("raw").ints(); }) ==
          "feature 'raw': expected a list of ints, got a list of bytes");
    CHECK(contains(message_of<ls::DataError>([&] { example.at("big").read(numbers); }),
                   "expected 3 numbers, got 2"));
    CHECK(contains(message_of<ls::DataError>([&] { example.at("raw").read(numbers); }),
                   "got a list of bytes"));
  }
}

TEST_CASE("TFRecordFile: more records than a window, and one larger than it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 300; ++i)
    records.emplace_back(i == 150 ? 200'000 : i * 3, static_cast<char>('a' + i % 26));
  {
    ls::TFRecordWriter writer(path);
    for (const std::string& record : records) writer.write(record);
  }
  const ls::TFRecordFile file(path);
  REQUIRE(file.size() == 300);
  ls::TFRecordFile::Reader reader(file);
  for (std::int64_t i = 299; i >= 0; --i) {
    const auto bytes = reader.read(i);
    CHECK(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
          records[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("TFRecordFile: damage is named with file, record and offset, whatever byte it is in") {
  const TemporaryFolder folder;
  const std::string path = write(folder, golden_file);
  const ls::TFRecordFile file(path);
  for (std::size_t i = 0; i < golden_file.size(); ++i) {
    std::int64_t record = 2;
    while (file.offset(record) > i) --record;
    std::string damaged = golden_file;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    CHECK(
        contains(refusal(write(folder, damaged)), file.name_of(record) + ": the checksum of its "));
  }
  CHECK(file.name_of(0) == "'" + path + "': record 0, at offset 0");
  for (std::size_t size = 1; size < golden_file.size(); ++size)
    if (size != file.offset(1) && size != file.offset(2))
      CHECK(contains(refusal(write(folder, golden_file.substr(0, size))),
                     "the file is cut off: expected "));
  write(folder, golden_file.substr(0, file.offset(2) + 20));
  ls::TFRecordFile::Reader reader(file);
  CHECK_NOTHROW((void)reader.read(1));
  CHECK(contains(message_of<ls::DataError>([&] { (void)reader.read(2); }), "has become shorter"));

  CHECK(contains(refusal(write(folder, "\x1F\x8B of a gzip file")),
                 "the file is compressed (decompress it first)"));
  CHECK(contains(refusal(folder.path()), "no regular file"));
  CHECK(contains(refusal(folder.path("none")), "cannot be opened: No such file"));
}

TEST_CASE(
    "ExampleView: bytes that are no example are refused, and what it does not know is passed "
    "over") {
  const auto parse = [](const std::string& bytes) {
    return message_of<ls::DataError>([&] {
      const ls::ExampleView example(std::as_bytes(std::span(bytes)));
      for (const ls::FeatureView& feature : example.features()) {
        if (feature.kind() == ls::FeatureKind::ints) (void)feature.ints();
        if (feature.kind() == ls::FeatureKind::floats) (void)feature.floats();
        if (feature.kind() == ls::FeatureKind::bytes) (void)feature.bytes();
      }
    });
  };
  const std::string good = some_example(1).serialize();
  CHECK(parse(good) == "NO EXCEPTION");
  for (std::size_t size = 1; size < good.size(); ++size)
    CHECK(contains(parse(good.substr(0, size)), "end too early"));
  CHECK(contains(parse(std::string(11, '\xFF')), "more than 64 bits"));
  CHECK(contains(parse(std::string("\x0B", 1)), "wire type 3"));
  CHECK(contains(parse(std::string("\x02\x00", 2)), "number is out of range"));
  CHECK(contains(parse(std::string("\x08\x01", 2)), "expected bytes"));  // field 1 as a varint
  ls::detail::ProtoWriter others;
  others.varint(7, 300).number(8, 1.0).number(9, 1.0F).text(10, "later fields");
  CHECK(parse(others.bytes() + good) == "NO EXCEPTION");

  // Lists that are not packed, as old writers have them.
  ls::detail::ProtoWriter list, feature, entry, features, example;
  list.varint(1, 5).varint(1, static_cast<std::uint64_t>(-6));
  example.message(1, features.message(1, entry.text(1, "n").message(2, feature.message(3, list))));
  const ls::ExampleView view(std::as_bytes(std::span(example.bytes())));
  CHECK(view.at("n").ints() == std::vector<std::int64_t>{5, -6});
}

namespace {

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes)
    for (const int shift : {4, 0})
      hex += "0123456789abcdef"[(std::to_integer<unsigned>(byte) >> shift) & 15];
  return hex;
}

/// What stands in front of a record, and behind it.
std::string frame_of(std::string_view data) {
  const std::vector<std::byte> record = bytes_of(data);
  return hex_of(ls::detail::record_head(record.size())) + " " +
         hex_of(ls::detail::record_tail(record));
}

}  // namespace

TEST_SUITE_BEGIN("Keras: TensorBoard event file");

TEST_CASE(
    "TensorBoard's event file: a record is its length in u64, data, and the masked CRC-32C of "
    "each; that of 123456789 is c78ab0e5") {
  CHECK(ls::detail::masked_crc32c(std::as_bytes(std::span("123456789", 9))) == 0xC78AB0E5);
  // Event{wall_time 1, file_version "brain.Event:2"}, and epoch_loss = 0.25 at step 3.
  CHECK(frame_of("09000000000000f03f1a0d627261696e2e4576656e743a32") ==
        "1800000000000000a37f4b22 86bf577a");
  CHECK(
      frame_of("09000000000000f03f10032a290a270a0a65706f63685f6c6f7373420a080112002a040000803e4a0d"
               "0a090a077363616c6172732001") == "36000000000000004f578cef 7e65e148");
}

TEST_SUITE_END();
