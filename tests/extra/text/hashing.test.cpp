#include "lockstep/extra/text/hashing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/categories.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::categories;
using namespace lockstep_test;

namespace {

constexpr std::size_t many = 1'000'003;
template <std::size_t Bins, ls::TextOutput Output = ls::TextOutput::int_>
using Hashing = ls::Hashing<ls::HashingOptions{.num_bins = Bins, .output_mode = Output}>;

/// The numbers of values, each by itself and all together.
template <class Hash, class Values>
std::vector<float> bins(const Hash& hash, const Values& values) {
  std::vector<float> x(values.size());
  hash.encode(values, std::span<float>(x));
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(hash(values[i]) == std::vector<float>{x[i]});
  const ls::Tensor<float> rows = hash(values);
  CHECK(rows.shape() == std::vector<std::size_t>{values.size(), 1});
  return x;
}

template <class... Ranges>
std::vector<float> crossed(const Ranges&... ranges) {
  constexpr ls::HashedCrossing<ls::HashingOptions{.num_bins = many}> cross;
  const ls::Tensor<float> rows = cross(ranges...);
  std::vector<float> x;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    x.push_back(rows.row(i)[0]);
    CHECK(cross(ranges[i]...) == std::vector<float>{x.back()});
  }
  return x;
}

template <class Range>
Range rotated(Range range) {
  std::rotate(range.begin(), range.begin() + 1, range.end());
  return range;
}

}  // namespace

TEST_SUITE("Keras: Hashing") {
  TEST_CASE("bins of texts of all lengths and of integers, with a mask and with a salt") {
    using ls::HashSalt;
    CHECK(bins(Hashing<many>(), known::texts) == known::hashed_texts);
    CHECK(bins(Hashing<many>({.salt = 133}), known::texts) == known::hashed_texts_salt);
    CHECK(bins(Hashing<many>({.salt = HashSalt(133, 137)}), known::texts) ==
          known::hashed_texts_two_salts);
    CHECK(bins(Hashing<11>({.mask_value = "abc"}), known::texts) == known::hashed_texts_mask);
    CHECK(bins(Hashing<many>(), known::integers) == known::hashed_integers);
    CHECK(bins(Hashing<11>({.mask_value = "7", .salt = HashSalt(1, 2)}), known::integers) ==
          known::hashed_integers_mask_salt);
  }
  TEST_CASE("the outputs of several values, in float and double") {
    using enum ls::TextOutput;
    const std::vector<std::string> few(known::texts.begin() + 1, known::texts.begin() + 5);
    const auto encoded = [&](const auto& hash, std::size_t size) {
      std::vector<double> x(size, 9);
      hash.encode(few, std::span<double>(x));
      return std::vector<float>(x.begin(), x.end());
    };
    CHECK(encoded(Hashing<5, multi_hot>(), 5) == known::hashed_multi_hot);
    CHECK(encoded(Hashing<5, count>(), 5) == known::hashed_count);
    CHECK(encoded(Hashing<5, one_hot>(), 20) == known::hashed_one_hot);
    CHECK(Hashing<5, one_hot>()(few).shape() == std::vector<std::size_t>{4, 5});
  }
  TEST_CASE("HashedCrossing of texts, of integers, of both, of three") {
    const auto texts = known::texts;
    const std::vector<std::string> nine(texts.begin(), texts.begin() + 9);
    const auto behind = rotated(texts);
    const std::vector<std::string> nine_behind(behind.begin(), behind.begin() + 9);
    CHECK(crossed(texts, behind) == known::crossed_texts);
    CHECK(crossed(known::integers, rotated(known::integers)) == known::crossed_integers);
    CHECK(crossed(nine, known::integers) == known::crossed_both);
    CHECK(crossed(nine, known::integers, nine_behind) == known::crossed_three);
    constexpr ls::HashedCrossing<ls::HashingOptions{.num_bins = 3,
                                                    .output_mode = ls::TextOutput::one_hot}>
        one_hot;
    constexpr ls::HashedCrossing<ls::HashingOptions{.num_bins = 3}> bin;
    std::vector<float> expected(3);
    expected[static_cast<std::size_t>(bin("a", 1)[0])] = 1;
    CHECK(one_hot("a", 1) == expected);
  }
}

TEST_CASE("Hashing: what is wrong is said") {
  const std::vector<std::string> two{"a", "b"};
  std::array<float, 3> three{};
  CHECK(contains(message_of<ls::ConfigurationError>([&] { Hashing<5>().encode(two, three); }),
                 "Hashing: expected room for 2 numbers, got 3"));
  constexpr ls::HashedCrossing<ls::HashingOptions{.num_bins = 3}> cross;
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { (void)cross(two, std::vector<std::string>{"a"}); }),
      "HashedCrossing: expected ranges of one length, got (2, 1)"));
  CHECK(contains(
      message_of<ls::ConfigurationError>([&] { cross.write(std::span<float>(three), "a", "b"); }),
      "HashedCrossing: expected room for 1 numbers, got 3"));
}

TEST_CASE("Hashing in pipelines: a column of a table, lines; workers compare its options") {
  const TemporaryFolder folder;
  const std::string_view table = "id,city\n7,abc\n8,abcd\n", lines = "abc\nabcd\n";
  const std::string csv = folder.write("a.csv", {table.begin(), table.end()}),
                    text = folder.write("a.txt", {lines.begin(), lines.end()});
  const Hashing<11> hash({.mask_value = "abc"});
  const auto rows = ls::from_csv({csv}, {.features = {{"id"}, {.name = "city", .text = hash}}});
  CHECK(row_batches(rows.batch(2)) == RowBatches{{{7, 0}, {8, 6}}});
  check_stage(rows.repeat(3).shuffle(4).batch(2));
  CHECK(row_batches(ls::from_text_lines({text}, hash, hash.sizes()).batch(2)) ==
        RowBatches{{{0}, {6}}});
  CHECK(hash.description() == "Hashing 11, int, mask \"abc\"");
  CHECK(Hashing<11>({.salt = 3}).description() == "Hashing 11, int, salt 3 3");
}
