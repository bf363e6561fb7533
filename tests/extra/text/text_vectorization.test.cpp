#include "lockstep/extra/text/text_vectorization.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/stage_testing.hpp"
#include "golden/text_vectorization.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/datasets/csv.hpp"
#include "lockstep/datasets/text_lines.hpp"
#include "lockstep/local.hpp"
#include "lockstep/saving/predictor.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::text_vectorization;
using namespace lockstep_test;

namespace {

using Options = ls::TextVectorizationOptions;
using Text = ls::TextVectorization<Options{.max_tokens = 100, .output_sequence_length = 4}>;

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  return folder.write(name, {text.begin(), text.end()});
}

/// What Keras has learned and made, also after saving and loading.
template <Options options>
void compare(const known::Case& expected) {
  using Vectorization = ls::TextVectorization<options>;
  Vectorization adapted;
  adapted.adapt(expected.learned);
  CHECK(adapted.get_vocabulary() == expected.vocabulary);
  const TemporaryFolder folder;
  bool is_utf8 = true;
  for (const std::string& token : expected.vocabulary) is_utf8 = is_utf8 && ls::is_utf8(token);
  REQUIRE(is_utf8);
  adapted.save(folder.path("text.json"));
  for (const Vectorization& text : {adapted, Vectorization(folder.path("text.json"))}) {
    CHECK(text.get_vocabulary() == expected.vocabulary);
    CHECK(text.vocabulary_size() == expected.vocabulary.size());
    for (std::size_t i = 0; i < expected.asked.size(); ++i)
      CHECK(text(expected.asked[i]) == expected.rows[i]);
  }
}

template <class F>
std::string refusal(F f) {
  return message_of<ls::ConfigurationError>(f);
}

}  // namespace

TEST_SUITE("Keras: TextVectorization") {
  TEST_CASE("vocabulary and numbers of every option") {
    using enum ls::TextStandardize;
    using enum ls::TextOutput;
    constexpr auto character = ls::TextSplit::character;
    const auto* const cases = known::cases;
    compare<Options{.max_tokens = 100, .output_sequence_length = 8}>(cases[0]);
    compare<Options{.max_tokens = 7, .output_sequence_length = 3}>(cases[1]);
    compare<Options{.max_tokens = 100, .standardize = lower, .output_sequence_length = 8}>(
        cases[2]);
    compare<Options{
        .max_tokens = 100, .standardize = strip_punctuation, .output_sequence_length = 8}>(
        cases[3]);
    compare<Options{.max_tokens = 100, .standardize = none, .output_sequence_length = 8}>(cases[4]);
    compare<Options{.max_tokens = 100, .split = character, .output_sequence_length = 8}>(cases[5]);
    compare<Options{.max_tokens = 100, .split = ls::TextSplit::none, .output_sequence_length = 2}>(
        cases[6]);
    compare<Options{.max_tokens = 20, .output_mode = multi_hot}>(cases[7]);
    compare<Options{.max_tokens = 9, .output_mode = count}>(cases[8]);
    compare<Options{
        .max_tokens = 6, .standardize = none, .split = character, .output_mode = count}>(cases[9]);
    compare<Options{.max_tokens = 20, .split = character, .output_sequence_length = 12}>(cases[10]);
    static_assert(std::size(known::cases) == 11);
  }
  TEST_CASE("set_vocabulary takes tokens with and without the special ones") {
    Text text;
    text.set_vocabulary({"earth", "wind", "and", "fire"});
    const std::vector<std::string> all{"", "[UNK]", "earth", "wind", "and", "fire"};
    CHECK(text.get_vocabulary() == all);
    CHECK(text.get_vocabulary(false) == std::vector<std::string>{"earth", "wind", "and", "fire"});
    text.set_vocabulary(all);
    CHECK(text.get_vocabulary() == all);
    CHECK(text("Fire, water") == std::vector<float>{5, 1, 0, 0});

    CHECK(contains(refusal([&] { text.set_vocabulary({}); }), "the vocabulary is empty"));
    CHECK(contains(refusal([&] { text.set_vocabulary({"a", "b", "a"}); }), "'a' stands twice"));
    CHECK(contains(refusal([&] {
                     text.set_vocabulary({"a", ""});
                   }),
                   "the special token '' stands within"));
    CHECK(
        contains(refusal([&] { text.set_vocabulary(std::vector<std::string>(99, "a")); }),
                 "has 101 tokens, the special ones included, expected at most .max_tokens = 100"));
    CHECK(text.get_vocabulary() == all);
  }
}

TEST_CASE("TextVectorization: ranges of texts, ranges of those, and a part of each line") {
  const TemporaryFolder folder;
  const std::string one = write(folder, "one", "1\tfine film\n0\tbad film\n"),
                    two = write(folder, "two", "1\tfine\n");
  Text text;
  text.adapt(std::vector{ls::LineFile(one), ls::LineFile(two)},
             [](std::string_view line) { return line.substr(2); });
  CHECK(text.get_vocabulary(false) == std::vector<std::string>{"fine", "film", "bad"});
  text.adapt({"fine fine", "bad"});
  CHECK(text.get_vocabulary(false) == std::vector<std::string>{"fine", "bad"});
  const char* const few[] = {"x", "y"};
  text.adapt(std::span(few));
  CHECK(text.vocabulary_size() == 4);

  std::array<double, 4> numbers{9, 9, 9, 9};
  text("y z", numbers);
  CHECK(numbers == std::array<double, 4>{2, 1, 0, 0});
  const ls::Tensor<float> rows = text({"x", "y y"});
  CHECK(rows.shape() == std::vector<std::size_t>{2, 4});
  CHECK(rows.row(1)[1] == 2);
}

TEST_CASE("TextVectorization: what is wrong is said") {
  Text text;
  CHECK(contains(refusal([&] { (void)text("a"); }), "there is no vocabulary: call adapt"));
  CHECK(contains(refusal([&] { text.adapt({"!!!", ""}); }), "the texts have no token"));
  text.adapt({"a"});
  std::array<float, 3> three{};
  CHECK(contains(refusal([&] { text("a", three); }),
                 "expected room for output_size = 4 numbers, got 3"));

  const TemporaryFolder folder;
  text.save(folder.path("saved"));
  using Longer = ls::TextVectorization<Options{.max_tokens = 100, .output_sequence_length = 5}>;
  CHECK(contains(refusal([&] { (void)Longer(folder.path("saved")); }),
                 "was saved with output_sequence_length = 4; this type has 5"));
  text.adapt({"caf\xe9"});
  CHECK(contains(message_of<ls::DataError>([&] { text.save(folder.path("latin1")); }),
                 "the token 'caf?' is no UTF-8"));

  const auto damaged = [&](const std::string& json) {
    return message_of<ls::DataError>([&] { (void)Text(write(folder, "damaged", json)); });
  };
  const std::string config =
      R"({"config": {"max_tokens": 100, "standardize": "lower_and_strip_punctuation",
          "split": "whitespace", "output_mode": "int", "output_sequence_length": 4})";
  CHECK(contains(damaged("{"), "damaged' is no JSON: "));
  CHECK(contains(damaged("[]"), "damaged': config.max_tokens: expected 100, got nothing"));
  CHECK(contains(damaged(config + "}"), "vocabulary: expected a list, got nothing"));
  CHECK(contains(damaged(config + R"(, "vocabulary": ["a", 1]})"),
                 "vocabulary[1]: expected a text, got 1"));
  CHECK(contains(damaged(config + R"(, "vocabulary": ["a", "a"]})"), "'a' stands twice"));
  CHECK(contains(message_of<ls::DataError>([&] { (void)Text(folder.path("none")); }),
                 "none': there is no such file"));
}

TEST_SUITE("TextVectorization in pipelines") {
  TEST_CASE("from_text_lines: as its function, and called by one; two workers") {
    const TemporaryFolder folder;
    const std::string path = write(folder, "lines", "1\tfine film\n0\tbad film\n1\tfine\n0\t!\n");
    Text text;
    text.adapt({"film film fine"});
    check_stage(ls::from_text_lines({path}, text, text.sizes()).shuffle(3).batch(2));
    const auto labelled = [text](std::string_view line, auto& sample) {
      sample.y[0] = line[0] == '1' ? 1 : 0;
      text(line.substr(2), sample.x);
    };
    CHECK(row_batches(ls::from_text_lines({path}, labelled, text.sizes(1)).batch(4)) ==
          RowBatches{{{3, 2, 0, 0, 1}, {1, 2, 0, 0, 0}, {3, 0, 0, 0, 1}, {0, 0, 0, 0, 0}}});

    const auto description = [&](const Text& f) {
      ls::PipelineDescription found;
      ls::TextLines<Text>(path, f, f.sizes()).describe(found);
      return found.text;
    };
    const std::string before = description(text);
    CHECK(contains(before, "from_text_lines(TextVectorization 100, "));
    text.adapt({"film fine fine"});
    CHECK(description(text) != before);
  }
  TEST_CASE("from_csv: a column of texts beside others") {
    const TemporaryFolder folder;
    const std::string path = write(
        folder, "table.csv", "id,review,good\n7,\"Fine, \"\"fine\"\"\nfilm\",1\n8,bad film,0\n");
    Text text;
    text.adapt(ls::read_csv(path).texts("review"));
    CHECK(text.get_vocabulary(false) == std::vector<std::string>{"fine", "film", "bad"});
    const auto reviews = ls::from_csv(
        {path}, {.features = {{"id"}, {.name = "review", .text = text}}, .targets = {{"good"}}});
    CHECK(row_batches(reviews.batch(2)) == RowBatches{{{7, 2, 2, 3, 0, 1}, {8, 4, 3, 0, 0, 0}}});
    check_stage(reviews.repeat(3).shuffle(4).batch(2));
    CHECK(row_batches(ls::from_csv({path}, {.features = {{"id"}},
                                            .targets = {{.name = "review", .text = text}}})
                          .batch(1)) == RowBatches{{{7, 2, 2, 3, 0}}, {{8, 4, 3, 0, 0}}});
  }
  TEST_CASE("a model learns from texts, alike on one thread and two; others load both files") {
    const TemporaryFolder folder;
    std::string lines;
    for (int i = 0; i < 64; ++i)
      lines += i % 2 == 0 ? "1\tfine and good\n" : "0\tbad and dull, really\n";
    const std::string path = write(folder, "lines", lines);
    const auto after_label = [](std::string_view line) { return line.substr(2); };
    Text text;
    text.adapt(ls::LineFile(path), after_label);
    text.save(folder.path("text.json"));
    const auto data = ls::from_text_lines(
                          {path},
                          [text, after_label](std::string_view line, auto& sample) {
                            sample.y[0] = line[0] == '1' ? 1 : 0;
                            text(after_label(line), sample.x);
                          },
                          text.sizes(1))
                          .shuffle(64)
                          .batch(16);
    using Net =
        ls::Sequential<ls::Input<Text::output_size>,
                       ls::Embedding<Text::max_tokens, 4, ls::EmbeddingOptions{.mask_zero = true}>,
                       ls::GlobalAveragePooling1D, ls::Dense<1>>;
    std::vector<float> outputs[2];
    for (const int threads : {1, 2}) {
      ls::MirroredStrategy strategy({.replicas = threads});
      auto model =
          ls::compile<Net>(strategy, {.seed = 1}, ls::BinaryCrossentropy{.from_logits = true},
                           ls::Adam{.learning_rate = 0.05});
      model.fit(data, {.epochs = 10, .verbose = 0});
      model.save_weights(folder.path("net.safetensors"));
      const ls::Predictor<Net> predictor(folder.path("net.safetensors"));
      const Text loaded(folder.path("text.json"));
      for (const char* const review : {"A good film, and fine", "bad, dull!"})
        outputs[threads - 1].push_back(predictor.predict_row(loaded(review))[0]);
    }
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(outputs[0][i] == doctest::Approx(outputs[1][i]).epsilon(1e-4));
    CHECK(outputs[0][0] > 1);
    CHECK(outputs[0][1] < -1);
  }
}
