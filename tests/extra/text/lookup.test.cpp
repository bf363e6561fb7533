#include "lockstep/extra/text/lookup.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/categories.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"
#include "lockstep/local.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::categories;
using namespace lockstep_test;

namespace {

using Options = ls::LookupOptions;
using Few = ls::StringLookup<Options{.max_tokens = 20}>;
using Three = ls::StringLookup<Options{.max_tokens = 20, .num_oov_indices = 3}>;

std::string write(const TemporaryFolder& folder, const std::string& name, std::string_view text) {
  return folder.write(name, {text.begin(), text.end()});
}

/// What a lookup makes of a sample of several values, in float and double.
template <class Lookup, class Values>
std::vector<float> encoded(const Lookup& lookup, const Values& values, std::size_t size) {
  std::vector<float> x(size, 9);
  lookup.encode(values, std::span<float>(x));
  std::vector<double> same(size, 9);
  lookup.encode(values, std::span<double>(same));
  for (std::size_t i = 0; i < size; ++i) CHECK(static_cast<float>(same[i]) == x[i]);
  return x;
}

/// Vocabulary and numbers, also after saving and loading.
template <class Lookup, class Vocabulary, class Values>
void compare(const Lookup& lookup, const Vocabulary& vocabulary, const Values& asked,
             const std::vector<float>& expected) {
  const TemporaryFolder folder;
  lookup.save(folder.path("lookup.json"));
  for (const Lookup& same : {lookup, Lookup(folder.path("lookup.json"))}) {
    CHECK(same.get_vocabulary() == vocabulary);
    CHECK(same.vocabulary_size() == vocabulary.size());
    CHECK(same.description() == lookup.description());
    CHECK(encoded(same, asked, expected.size()) == expected);
    for (std::size_t i = 0; i < vocabulary.size(); ++i) CHECK(same.invert(i) == vocabulary[i]);
  }
}

template <class Lookup, class Values>
Lookup adapted(Lookup lookup, const Values& learned) {
  lookup.adapt(learned);
  return lookup;
}

void check_close(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

template <class F>
std::string refusal(F f) {
  return message_of<ls::ConfigurationError>(f);
}

}  // namespace

TEST_SUITE("Keras: StringLookup") {
  TEST_CASE("vocabulary and numbers: masks, several numbers for other texts, a cut vocabulary") {
    const auto& learned = known::learned;
    compare(adapted(Few(), learned), known::lookup_vocabulary, known::asked, known::lookup);
    compare(adapted(Three({.mask_token = ""}), learned), known::lookup_mask_three_vocabulary,
            known::asked, known::lookup_mask_three);
    using Five = ls::StringLookup<Options{.max_tokens = 20, .num_oov_indices = 5}>;
    compare(adapted(Five({.salt = ls::HashSalt(3, 4)}), learned), known::lookup_salt_vocabulary,
            known::asked, known::lookup_salt);
    using Four = ls::StringLookup<Options{.max_tokens = 4}>;
    compare(adapted(Four({.mask_token = "", .oov_token = "?"}), learned),
            known::lookup_cut_vocabulary, known::asked, known::lookup_cut);
    using None = ls::StringLookup<Options{.max_tokens = 2, .num_oov_indices = 0}>;
    const None none({.vocabulary = {"red", "blue"}});
    compare(none, known::lookup_known_vocabulary, std::vector<std::string>{"blue", "red"},
            known::lookup_known);
    CHECK(contains(message_of<ls::DataError>([&] { (void)none("pink"); }),
                   "'pink' is not in the vocabulary: let .num_oov_indices be 1 or more"));
  }
  TEST_CASE("the other outputs") {
    using enum ls::TextOutput;
    const auto check = [](auto lookup, const auto& vocabulary, const std::vector<float>& x) {
      lookup.adapt(known::learned);
      CHECK(lookup.get_vocabulary() == vocabulary);
      CHECK(encoded(lookup, known::asked, x.size()) == x);
    };
    constexpr Options options{.max_tokens = 9, .num_oov_indices = 2, .output_mode = one_hot};
    constexpr Options many{.max_tokens = 9, .num_oov_indices = 2, .output_mode = multi_hot};
    constexpr Options counts{.max_tokens = 9, .num_oov_indices = 2, .output_mode = count};
    check(ls::StringLookup<options>({.mask_token = ""}), known::lookup_one_hot_vocabulary,
          known::lookup_one_hot);
    check(ls::StringLookup<many>({.mask_token = ""}), known::lookup_multi_hot_vocabulary,
          known::lookup_multi_hot);
    check(ls::StringLookup<counts>({.mask_token = ""}), known::lookup_count_vocabulary,
          known::lookup_count);
  }
  TEST_CASE("tf_idf: weights that are learned, given, saved") {
    constexpr Options options{
        .max_tokens = 9, .num_oov_indices = 2, .output_mode = ls::TextOutput::tf_idf};
    ls::StringLookup<options> lookup({.mask_token = ""});
    lookup.adapt(known::documents);
    CHECK(lookup.get_vocabulary() == known::tf_idf_vocabulary);
    const TemporaryFolder folder;
    lookup.save(folder.path("lookup.json"));
    const ls::StringLookup<options> loaded(folder.path("lookup.json"));
    CHECK(loaded.description() == lookup.description());
    for (std::size_t i = 0; i < known::document_asked.size(); ++i) {
      check_close(encoded(lookup, known::document_asked[i], 9), known::tf_idf[i]);
      CHECK(encoded(loaded, known::document_asked[i], 9) ==
            encoded(lookup, known::document_asked[i], 9));
    }
    ls::StringLookup<Options{.max_tokens = 5, .output_mode = ls::TextOutput::tf_idf}> given;
    CHECK(contains(refusal([&] {
                     given.set_vocabulary({"red", "blue"});
                   }),
                   "expected a weight for each of the 2 tokens (tf_idf), got 0"));
    given.set_vocabulary({"red", "blue"}, {0.25F, 0.75F});
    for (std::size_t i = 0; i < known::document_asked.size(); ++i)
      CHECK(encoded(given, known::document_asked[i], 5) == known::tf_idf_given[i]);

    ls::TextVectorization<ls::TextVectorizationOptions{.max_tokens = 8,
                                                       .output_mode = ls::TextOutput::tf_idf}>
        text;
    std::vector<std::string> sentences, questions;
    for (const auto& [from, to] :
         {std::pair(&known::documents, &sentences), std::pair(&known::document_asked, &questions)})
      for (const auto& words : *from) {
        to->emplace_back();
        for (const std::string& word : words) to->back() += word + " ";
      }
    text.adapt(sentences);
    CHECK(text.get_vocabulary() == known::text_tf_idf_vocabulary);
    for (std::size_t i = 0; i < questions.size(); ++i)
      check_close(text(questions[i]), known::text_tf_idf[i]);
  }
  TEST_CASE("TextVectorization of whole texts leaves out the empty one") {
    ls::TextVectorization<ls::TextVectorizationOptions{.max_tokens = 4,
                                                       .standardize = ls::TextStandardize::none,
                                                       .split = ls::TextSplit::none,
                                                       .output_mode = ls::TextOutput::count}>
        text;
    text.adapt({"a", "b", "a", ""});
    const char* const asked[] = {"a", "", "c"};
    for (std::size_t i = 0; i < 3; ++i) CHECK(text(asked[i]) == known::text_whole[i]);
  }
  TEST_CASE("invert") {
    using Two = ls::StringLookup<Options{.max_tokens = 5, .num_oov_indices = 2}>;
    const Two lookup({.vocabulary = {"red", "blue"}, .mask_token = ""});
    for (std::size_t i = 0; i < known::inverted.size(); ++i)
      CHECK(lookup.invert(i) == known::inverted[i]);
  }
}

TEST_SUITE("Keras: IntegerLookup") {
  TEST_CASE("vocabulary and numbers") {
    const auto& learned = known::learned_integers;
    using Plain = ls::IntegerLookup<Options{.max_tokens = 20}>;
    compare(adapted(Plain(), learned), known::integer_lookup_vocabulary, known::asked_integers,
            known::integer_lookup);
    compare(adapted(ls::IntegerLookup<Options{.max_tokens = 20, .num_oov_indices = 3}>(
                        {.mask_token = 0}),
                    learned),
            known::integer_lookup_mask_three_vocabulary, known::asked_integers,
            known::integer_lookup_mask_three);
    compare(adapted(ls::IntegerLookup<Options{.max_tokens = 4}>(), learned),
            known::integer_lookup_cut_vocabulary, known::asked_integers, known::integer_lookup_cut);
    const auto counts =
        adapted(ls::IntegerLookup<Options{.max_tokens = 9, .output_mode = ls::TextOutput::count}>(),
                learned);
    CHECK(counts.get_vocabulary() == known::integer_lookup_count_vocabulary);
    CHECK(encoded(counts, known::asked_integers, 9) == known::integer_lookup_count);
  }
  TEST_CASE("texts of digits are whole numbers, other texts are refused") {
    ls::IntegerLookup<Options{.max_tokens = 9}> lookup({.mask_token = 0});
    lookup.adapt({"7", "+7", "007", " 8", ""});
    CHECK(lookup.get_vocabulary() == std::vector<std::int64_t>{0, -1, 7, 8});
    CHECK(lookup(7) == std::vector<float>{2});
    CHECK(lookup("08") == std::vector<float>{3});
    CHECK(lookup("") == std::vector<float>{0});
    for (const char* const text : {"7.5", "x", "+-7", "99999999999999999999"})
      CHECK(contains(message_of<ls::DataError>([&] { (void)lookup(text); }),
                     "IntegerLookup: expected a whole number of 64 bits, got '"));
    CHECK(contains(message_of<ls::DataError>([&] {
                     (void)ls::IntegerLookup<Options{.max_tokens = 9}>({.vocabulary = {1}})("");
                   }),
                   "expected a whole number of 64 bits, got ''"));
  }
}

TEST_CASE("StringLookup: what is wrong is said") {
  Few lookup;
  CHECK(contains(refusal([&] { (void)lookup("a"); }),
                 "StringLookup: there is no vocabulary: call adapt or set_vocabulary"));
  CHECK(contains(refusal([&] { lookup.adapt(std::vector<std::string>()); }), "is empty"));
  CHECK(contains(refusal([&] { lookup.set_vocabulary({"a", "b", "a"}); }), "'a' stands twice"));
  CHECK(contains(refusal([&] {
                   lookup.set_vocabulary({"a", "[UNK]"});
                 }),
                 "the special token '[UNK]' stands within the vocabulary"));
  CHECK(contains(refusal([&] { lookup.set_vocabulary({"a"}, {1.0F}); }),
                 "weights of tokens belong to TextOutput::tf_idf"));
  CHECK(contains(refusal([&] { lookup.set_vocabulary(std::vector<std::string>(20, "a")); }),
                 "has 21 tokens, the special ones included, expected at most .max_tokens = 20"));
  lookup.set_vocabulary({"[UNK]", "a"});
  CHECK(lookup.get_vocabulary(false) == std::vector<std::string>{"a"});
  std::array<float, 3> three{};
  CHECK(contains(refusal([&] { lookup("a", three); }), "expected room for 1 numbers, got 3"));

  const TemporaryFolder folder;
  lookup.save(folder.path("saved"));
  CHECK(contains(refusal([&] { (void)Three(folder.path("saved")); }),
                 "was saved with num_oov_indices = 1; this type has 3: make them equal"));
  const auto damaged = [&](const std::string& members) {
    const std::string json =
        R"({"config": {"max_tokens": 20, "num_oov_indices": 1, "output_mode": "int", )" + members;
    return message_of<ls::DataError>([&] { (void)Few(write(folder, "damaged", json)); });
  };
  CHECK(contains(damaged(R"("salt": null}})"),
                 "config.mask_token: expected a text or null, got nothing"));
  CHECK(contains(damaged(R"("mask_token": null, "oov_token": "?", "salt": "1"}})"),
                 "config.salt: expected two numbers, got '1'"));
  CHECK(contains(damaged(R"("mask_token": null, "oov_token": "?", "salt": null}})"),
                 "vocabulary: expected a list, got nothing"));
  const std::string json =
      R"({"config": {"max_tokens": 20, "num_oov_indices": 1, "output_mode": "int",
          "mask_token": null, "oov_token": "-1", "salt": null}, "vocabulary": ["x"]})";
  CHECK(contains(message_of<ls::DataError>([&] {
                   (void)ls::IntegerLookup<Options{.max_tokens = 20}>(
                       write(folder, "damaged", json));
                 }),
                 "'x' in the vocabulary is no whole number"));
  const std::string same = R"(, "vocabulary": ["07"]})";
  const ls::IntegerLookup<Options{.max_tokens = 20}> seven(
      write(folder, "seven", json.substr(0, json.find(", \"vocabulary\"")) + same));
  CHECK(seven(7) == std::vector<float>{1});
}

TEST_CASE("StringLookup in pipelines: columns of a table, lines; workers compare vocabularies") {
  const TemporaryFolder folder;
  const std::string csv = write(folder, "a.csv", "city,zip\nLyon,69001\nNice,6000\nLyon,06000\n"),
                    text = write(folder, "a.txt", "Lyon\nNancy\n");
  const ls::CsvTable table = ls::read_csv(csv);
  ls::StringLookup<Options{.max_tokens = 3, .output_mode = ls::TextOutput::one_hot}> city;
  city.adapt(table.texts("city"));
  ls::IntegerLookup<Options{.max_tokens = 3}> zip;
  zip.adapt(table.texts("zip"));
  CHECK(city(table.texts("city")).shape() == std::vector<std::size_t>{3, 3});
  const auto rows = ls::from_csv({csv}, {.features = {{.name = "city", .text = city}},
                                         .targets = {{.name = "zip", .text = zip}}});
  CHECK(row_batches(rows.batch(3)) == RowBatches{{{0, 1, 0, 2}, {0, 0, 1, 1}, {0, 1, 0, 1}}});
  check_stage(rows.repeat(3).shuffle(4).batch(2));
  CHECK(row_batches(ls::from_text_lines({text}, city, city.sizes()).batch(2)) ==
        RowBatches{{{0, 1, 0}, {1, 0, 0}}});
  const std::string before = city.description();
  CHECK(contains(before, "StringLookup 3, 1, \"one_hot\", null, \"[UNK]\", null, vocabulary "));
  city.adapt(table.texts("zip"));
  CHECK(city.description() != before);
}
