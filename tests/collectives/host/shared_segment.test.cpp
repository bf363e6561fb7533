#include "lockstep/collectives/host/shared_segment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"

using namespace lockstep;
using detail::SegmentName;
using detail::SharedSegment;

namespace {

std::string problem_of(const SegmentName& name) {
  try {
    (void)SharedSegment::open(name);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("shared segment") {
  TEST_CASE("what one mapping writes, the other reads") {
    const SharedSegment owner = SharedSegment::create(1'000'000, 42);
    SharedSegment other = SharedSegment::open(owner.name());
    CHECK(owner.data() != other.data());
    CHECK(other.size() == 1'000'000);
    CHECK(reinterpret_cast<std::uintptr_t>(owner.data()) % 64 == 0);
    CHECK(other.data()[999'999] == std::byte{0});
    owner.data()[999'999] = std::byte{7};
    CHECK(other.data()[999'999] == std::byte{7});
    const SharedSegment moved = std::move(other);
    CHECK(moved.data()[999'999] == std::byte{7});
  }

  TEST_CASE("the owner gives the memory back, also while others have it mapped") {
    std::optional owner(SharedSegment::create(1 << 20, 42));
    const SharedSegment other = SharedSegment::open(owner->name());
    owner->data()[500'000] = std::byte{7};
    owner.reset();
    CHECK(other.data()[500'000] == std::byte{0});
  }

  TEST_CASE("what the owner has given up stays as it is, and cannot be opened") {
    std::optional owner(SharedSegment::create(1 << 20, 42));
    const SharedSegment other = SharedSegment::open(owner->name());
    owner->data()[500'000] = std::byte{7};
    owner->disown();
    CHECK(!problem_of(owner->name()).empty());
    owner.reset();
    CHECK(other.data()[500'000] == std::byte{7});
  }

  TEST_CASE("nothing but the very segment is opened") {
    const SharedSegment owner = SharedSegment::create(1000, 42);
    SegmentName name = owner.name();
    name.cookie = 43;
    CHECK(problem_of(name).find("is not the shared memory that was announced") !=
          std::string::npos);
    name = owner.name();
    name.size = 100'000;
    CHECK(problem_of(name).find("is not the shared memory that was announced") !=
          std::string::npos);
    name = owner.name();
    name.descriptor = 0;  // some file
    CHECK(!problem_of(name).empty());
    name.descriptor = 999'999;
    CHECK(problem_of(name).find("No such file or directory") != std::string::npos);
  }
}

using namespace lockstep::detail;

namespace {

std::vector<std::byte> content(std::size_t begin, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((begin + i) * 31 + (begin + i) / 251);
  return bytes;
}

}  // namespace

TEST_SUITE("byte pipe") {
  constexpr std::size_t capacity = PipeMemory::capacity;

  TEST_CASE(
      "bytes come out as they went in, also around the ring's end, and no more go in than fit") {
    const auto memory = std::make_unique<PipeMemory>();
    PipeWriter writer(*memory);
    PipeReader reader(*memory);
    std::size_t written = 0, read = 0;
    for (const std::size_t count : {std::size_t{1}, std::size_t{0}, capacity - 1, std::size_t{1000},
                                    capacity, 2 * capacity}) {
      const std::size_t fits = std::min(count, capacity);
      CHECK(writer.write(content(written, count)) == fits);
      written += fits;
      std::vector<std::byte> out(count);
      CHECK(reader.read(out) == fits);
      out.resize(fits);
      CHECK(out == content(read, fits));
      read += fits;
    }
    CHECK(writer.write(content(0, capacity)) == capacity);
    CHECK(writer.write(content(0, 1)) == 0);
    std::byte one;
    CHECK(reader.read({&one, 1}) == 1);
    CHECK(writer.write(content(0, 5)) == 1);
  }

  TEST_CASE(
      "a side that waits is to be woken once; the writer not before half of the ring is free") {
    const auto memory = std::make_unique<PipeMemory>();
    PipeWriter writer(*memory);
    PipeReader reader(*memory);
    std::vector<std::byte> bytes(capacity);
    CHECK_FALSE(reader.wait());
    CHECK(writer.write({bytes.data(), 10}) == 10);
    CHECK(writer.reader_waits());
    CHECK_FALSE(writer.reader_waits());
    CHECK(reader.wait());  // there is something after all
    CHECK(writer.wait());
    CHECK(writer.write(bytes) == capacity - 10);
    CHECK_FALSE(writer.wait());
    CHECK(reader.read({bytes.data(), capacity / 2 - 1}) == capacity / 2 - 1);
    CHECK_FALSE(reader.writer_waits());
    CHECK(reader.read({bytes.data(), 1}) == 1);
    CHECK(reader.writer_waits());
    CHECK_FALSE(reader.writer_waits());
  }

  TEST_CASE(
      "whatever the other process writes into the counters, nothing is read or written outside the "
      "ring") {
    const auto memory = std::make_unique<PipeMemory>();
    PipeWriter writer(*memory);
    PipeReader reader(*memory);
    std::vector<std::byte> bytes(3 * capacity);
    memory->written = 5 * capacity + 7;
    CHECK(reader.read(bytes) <= capacity);
    memory->read = std::uint64_t{0} - 5;
    CHECK(writer.write(bytes) <= capacity);
    memory->read = std::uint64_t{1} << 60;
    CHECK(writer.write(bytes) <= capacity);
  }

  TEST_CASE("two threads") {
    const auto memory = std::make_unique<PipeMemory>();
    constexpr std::size_t total = 20 * capacity + 12345;
    std::thread other([&] {
      PipeWriter writer(*memory);
      const auto bytes = content(0, total);
      for (std::size_t done = 0; done < total; std::this_thread::yield())
        done += writer.write(
            std::span(bytes).subspan(done, std::min<std::size_t>(total - done, 1 + done % 70'000)));
    });
    PipeReader reader(*memory);
    std::vector<std::byte> bytes(total);
    for (std::size_t done = 0; done < total; std::this_thread::yield())
      done += reader.read(
          std::span(bytes).subspan(done, std::min<std::size_t>(total - done, 1 + done % 90'000)));
    other.join();
    CHECK(bytes == content(0, total));
  }
}
