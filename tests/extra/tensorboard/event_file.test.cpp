#include "lockstep/extra/tensorboard/tensorboard.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "golden/events.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::events;
using lockstep_test::contains;
using lockstep_test::file_text;
using lockstep_test::message_of;
using lockstep_test::TemporaryFolder;

namespace {

template <std::size_t N>
std::string bytes_of(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}

double wall_time() { return 1.5; }

}  // namespace

TEST_SUITE_BEGIN("Keras: TensorBoard event file");

TEST_CASE(
    "EventFile: Event, Summary, Value and Metadata of every kind, byte for byte as TensorBoard's "
    "own messages") {
  const TemporaryFolder folder;
  std::string path;
  {
    ls::EventFile events(folder.path("logs/train"), &wall_time);
    path = events.path();
    events.scalar("epoch_loss", 3, 0.25);
    events.scalar("none", 0, 0);
    const std::vector<double> numbers = {1, 2, 3, 4.5}, equal = {2, 2};
    events.histogram("h", 7, numbers, 3);
    events.histogram("equal", 0, equal);
    events.histogram("empty", 0, {});
    events.text("note", 0, "*words*");
    events.model("keras", 0, "{}");
    const std::vector<std::uint8_t> first = {0, 255, 7, 8}, second = {1, 2, 3, 4};
    const std::vector<std::string> pngs = {ls::encode_png(first, 2, 2, 1),
                                           ls::encode_png(second, 2, 2, 1)};
    events.images("image", 2, 2, 2, pngs);
    CHECK(events.size() == sizeof golden::each_kind);
  }
  CHECK(file_text(path) == bytes_of(golden::each_kind));
}

TEST_CASE("EventFile: the file's name is events.out.tfevents.<seconds>.<host>.<pid>.<n>.v2") {
  const TemporaryFolder folder;
  char host[256] = "";
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const std::string begin = folder.path("events.out.tfevents.0000000001.") + host + "." +
                            std::to_string(::getpid()) + ".";
  // n counts the files of this process.
  const auto number_of = [&](const std::string& path) {
    REQUIRE(path.starts_with(begin));
    std::size_t digits = 0;
    const int n = std::stoi(path.substr(begin.size()), &digits);
    CHECK(path.substr(begin.size() + digits) == ".v2");
    return n;
  };
  const ls::EventFile first(folder.path(), &wall_time), second(folder.path(), &wall_time);
  CHECK(number_of(second.path()) == number_of(first.path()) + 1);
}

TEST_CASE("EventFile: goes on behind the first bytes of a file") {
  const TemporaryFolder folder;
  ls::EventFile events(folder.path(), &wall_time);
  events.scalar("a", 1, 1);
  events.flush();
  const std::uint64_t size = events.size();
  const std::string expected = file_text(events.path());
  events.scalar("lost", 2, 2);
  events.close();
  CHECK(file_text(events.path()).size() > size);
  {
    ls::EventFile again(events.path(), size, &wall_time);
    CHECK(again.size() == size);
    again.scalar("b", 2, 2);
  }
  CHECK(file_text(events.path()).starts_with(expected));
  CHECK_FALSE(contains(file_text(events.path()), "lost"));
  CHECK(contains(file_text(events.path()), "b"));

  CHECK(contains(message_of<ls::Error>([] { ls::EventFile("/dev/null/folder"); }),
                 "'/dev/null/folder'"));
}

TEST_CASE(
    "histogram_of: the least and the greatest value are inside, what is not finite is left out") {
  const std::vector<double> numbers = {-1, 0.5,          3,
                                       3,  std::nan(""), std::numeric_limits<double>::infinity()};
  const auto buckets = ls::histogram_of(numbers, 4);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0] == ls::HistogramBucket{-1, 0, 1});
  CHECK(buckets[1] == ls::HistogramBucket{0, 1, 1});
  CHECK(buckets[2] == ls::HistogramBucket{1, 2, 0});
  CHECK(buckets[3] == ls::HistogramBucket{2, 3, 2});
  const double tiny = std::numeric_limits<double>::denorm_min();  // a range that has no thirtieth
  const std::vector<double> close = {0, tiny};
  double count = 0;
  for (const auto& bucket : ls::histogram_of(close)) count += bucket[2];
  CHECK(count == 2);
  CHECK(ls::histogram_of({}).empty());
}

TEST_CASE("encode_png: refuses other numbers of pixels") {
  const std::vector<std::uint8_t> pixels(6);
  CHECK_NOTHROW((void)ls::encode_png(pixels, 1, 2, 3));
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::encode_png(pixels, 2, 2, 1); }),
                 "got 6 for [2 x 2 x 1]"));
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::encode_png({}, 0, 2, 1); }),
                 "got 0 for"));
}

TEST_SUITE_END();
