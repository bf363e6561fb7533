#include "lockstep/extra/text/byte_pair_encoding.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "golden/byte_pairs.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/unicode.hpp"
#include "support/messages.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::byte_pairs;
using namespace lockstep_test;

namespace {

using Ids = std::vector<std::uint32_t>;

std::string write(const TemporaryFolder& folder, const std::string& name, std::string_view text) {
  return folder.write(name, {text.begin(), text.end()});
}

ls::BytePairEncoding trained(bool add_prefix_space = false) {
  return ls::BytePairEncoding::train(known::learned, {.vocabulary_size = 310,
                                                      .special_tokens = {"<|endoftext|>"},
                                                      .add_prefix_space = add_prefix_space});
}

template <std::size_t n>
void compare(const ls::BytePairEncoding& tokenizer, const known::Case (&cases)[n]) {
  for (const known::Case& expected : cases) {
    CHECK(tokenizer.encode(expected.text) == expected.ids);
    CHECK(tokenizer.decode(expected.ids) == expected.decoded);
  }
}

/// Words, white space, letters of several scripts, and bytes that are no UTF-8.
std::string random_text(ls::RandomStream& random, bool any_bytes) {
  constexpr std::string_view parts[] = {" ",     " ",  "  ", "\n", "'s",     "'",      "the",
                                        "Hello", "12", "é",  "ж",  "\u3000", "\u00a0", "\u0301",
                                        "日本",  "!?", "😀", "\t", "ll",     "½"};
  std::string text;
  for (auto size = random.below(40); size > 0; --size)
    if (any_bytes && random.below(4) == 0)
      text += static_cast<char>(random.below(256));
    else
      text += parts[random.below(std::size(parts))];
  return text;
}

}  // namespace

TEST_CASE("characters: the classes of all code points are Unicode's") {
  std::vector<std::byte> classes(0x110000);
  for (std::size_t code = 0; code < classes.size(); ++code)
    classes[code] =
        static_cast<std::byte>(ls::detail::class_of_character(static_cast<char32_t>(code)));
  CHECK(ls::crc32(classes) == known::classes_crc);
}

TEST_CASE("characters: UTF-8, and as much of what is none as becomes one U+FFFD") {
  const auto sizes = [](std::string_view text) {
    std::vector<std::size_t> found;
    while (!text.empty()) {
      const ls::detail::Character next = ls::detail::first_character(text);
      found.push_back(next.code == 0xFFFD ? 10 + next.size : next.size);
      text.remove_prefix(next.size);
    }
    return found;
  };
  using Sizes = std::vector<std::size_t>;
  CHECK(sizes("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == Sizes{1, 2, 3, 4});
  // The Unicode Standard, tables 3-8 to 3-11.
  CHECK(sizes("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == Sizes{11, 11, 11, 11, 11, 11, 11, 11, 1});
  CHECK(sizes("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") == Sizes{11, 11, 11, 11, 11, 11, 11, 11, 1});
  CHECK(sizes("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == Sizes{11, 11, 11, 11, 11, 1, 11, 11, 1});
  CHECK(sizes("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == Sizes{12, 11, 13, 12, 1});
  CHECK(ls::detail::first_character("\xf0\x9f\x98\x80").code == 0x1F600);
}

TEST_CASE("BytePairEncoding: learns and encodes as tokenizers does") {
  const ls::BytePairEncoding tokenizer = trained();
  CHECK(tokenizer.vocabulary_size() == 310);
  compare(tokenizer, known::cases);
  compare(trained(true), known::with_prefix);
  const TemporaryFolder folder;
  tokenizer.save(folder.path("tokenizer.json"));
  const ls::BytePairEncoding loaded(folder.path("tokenizer.json"));
  compare(loaded, known::cases);
  loaded.save(folder.path("again.json"));
  CHECK(file_text(folder.path("again.json")) == file_text(folder.path("tokenizer.json")));
}

TEST_CASE("BytePairEncoding: reads the file of tokenizers, with added tokens") {
  const TemporaryFolder folder;
  const ls::BytePairEncoding theirs(write(folder, "theirs.json", known::file));
  compare(theirs, known::with_added);
  CHECK(theirs.vocabulary_size() == 314);
  CHECK(theirs.token_to_id("<|pad|>") == 313);
  CHECK(theirs.encode(" the") == Ids{theirs.token_to_id("\u0120the").value()});
  CHECK(theirs.token_to_id(" the") == std::nullopt);
  CHECK(theirs.decode(theirs.encode("a<|pad|>b")) == "ab");
  CHECK(theirs.decode(theirs.encode("a<|pad|>b"), false) == "a<|pad|>b");
  theirs.save(folder.path("ours.json"));
  compare(ls::BytePairEncoding(folder.path("ours.json")), known::with_added);
}

TEST_CASE("BytePairEncoding: any bytes come back, in any number of threads") {
  const ls::BytePairEncoding tokenizer = trained();
  const auto encode_all = [&](std::uint64_t seed) {
    ls::RandomStream random{ls::RandomKey(seed)};
    Ids all;
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_text(random, true);
      const Ids ids = tokenizer.encode(text);
      if (tokenizer.decode(ids, false) != text) return Ids{};
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  };
  const Ids expected = encode_all(1);
  REQUIRE(!expected.empty());
  std::atomic<int> equal = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] { equal += encode_all(1) == expected ? 1 : 0; });
  }
  CHECK(equal == 4);
  const std::string long_word(200'000, 'a');  // no time that grows with the square of its length
  CHECK(tokenizer.decode(tokenizer.encode(long_word)) == long_word);
}

TEST_CASE("BytePairEncoding: wrong options, ids and bytes") {
  const auto refusal = [](const ls::BytePairTrainingOptions& options) {
    return message_of<ls::ConfigurationError>(
        [&] { (void)ls::BytePairEncoding::train({"a text"}, options); });
  };
  CHECK(contains(refusal({.vocabulary_size = 256, .special_tokens = {"<s>"}}),
                 "expected .vocabulary_size to be at least 257 (256 bytes and the special tokens), "
                 "got 256"));
  CHECK(contains(refusal({.special_tokens = {"<s>", "<s>"}}), "the special token '<s>' is empty"));
  CHECK(contains(refusal({.special_tokens = {""}}), "the special token '' is empty"));
  CHECK(contains(refusal({.special_tokens = {"!"}}), "a single character"));
  const auto all = ls::BytePairEncoding::train({"a text"}, {.vocabulary_size = 1000});
  CHECK(all.vocabulary_size() == 260);  // no pair is left
  CHECK(all.encode(" text").size() == 1);
  const auto frequent = ls::BytePairEncoding::train({"aa aa ab"}, {.min_frequency = 2});
  CHECK(frequent.vocabulary_size() == 257);  // "aa"
  CHECK(contains(message_of<ls::DataError>([&] {
                   (void)all.decode(Ids{5, 260});
                 }),
                 "there is no id 260: the vocabulary has 260 tokens"));
  CHECK(all.encode("").empty());

  const TemporaryFolder folder;
  const ls::BytePairEncoding few(
      write(folder, "few.json",
            R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})"));
  CHECK(few.encode("aab") == Ids{0, 2});
  CHECK(contains(message_of<ls::DataError>([&] { (void)few.encode("abc"); }),
                 "the vocabulary has no token for the byte 0x63"));
}

TEST_CASE("BytePairEncoding: a damaged file is refused with file, place and what is expected") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& json) {
    const std::string path = write(folder, "t.json", json);
    const std::string message =
        message_of<ls::DataError>([&] { (void)ls::BytePairEncoding(path); });
    CHECK(contains(message, "tokenizer.json '" + path + "'"));
    return message;
  };
  const auto with = [&](std::string_view vocabulary, std::string_view merges,
                        std::string_view more = "") {
    return refusal(ls::concat({R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"vocab": )",
                               vocabulary, R"(, "merges": )", merges, "}", more, "}"}));
  };
  CHECK(contains(refusal("{\"a\": "), "is no JSON: parse error at line 1"));
  CHECK(contains(refusal("[]"), "pre_tokenizer.type: expected 'ByteLevel', got nothing"));
  CHECK(contains(refusal(R"({"normalizer": {"type": "NFC"}})"),
                 "normalizer: expected null, got an object"));
  CHECK(contains(refusal(R"({"pre_tokenizer": {"type": "Whitespace"}})"),
                 "pre_tokenizer.type: expected 'ByteLevel', got 'Whitespace'"));
  CHECK(contains(refusal(R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": false}})"),
                 "pre_tokenizer.use_regex: expected true, got false"));
  CHECK(contains(
      refusal(R"({"pre_tokenizer": {"type": "ByteLevel"}, "post_processor": {"type": "Bert"}})"),
      "post_processor.type: expected 'ByteLevel', got 'Bert'"));
  CHECK(contains(refusal(R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"dropout": 0.1}})"),
                 "model.dropout: expected null, got another number"));
  CHECK(contains(
      refusal(
          R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"end_of_word_suffix": "</w>"}})"),
      "model.end_of_word_suffix: expected null or '', got '</w>'"));
  CHECK(contains(with("[]", "[]"), "model.vocab: expected an object, got a list"));
  CHECK(contains(with("{}", "null"), "model.merges: expected a list, got null"));
  CHECK(contains(with(R"({"a": 1})", "[]"),
                 "model.vocab: 'a': expected an id less than 1, the number of tokens, got 1"));
  CHECK(contains(with(R"({"a": -1})", "[]"), "got another number"));
  CHECK(contains(with(R"({"a": 0, "b": 0})", "[]"),
                 "'b': expected an id for this token alone, not for 'a' too, got 0"));
  CHECK(contains(with(R"({"a": 0, "a": 1})", "[]"), "'a': expected each token once, got 1"));
  CHECK(contains(with(R"({"a": 0, "b": 1})", R"(["a b"])"),
                 "model.merges[0]: expected two tokens, which model.vocab has, and what they make "
                 "too, got 'a b'"));
  CHECK(contains(with(R"({"a": 0, "aa": 1})", R"(["a a", "b"])"), "model.merges[1]: "));
  CHECK(contains(with(R"({"a": 0, "aa": 1})", R"([["a", 1]])"), "model.merges[0]: "));
  CHECK(contains(with(R"({"a": 0})", "[]", R"(, "added_tokens": [{"content": "", "id": 0}])"),
                 "added_tokens[0].content: expected a text that is not empty, got ''"));
  CHECK(contains(with(R"({"a": 0})", "[]", R"(, "added_tokens": [{"content": "b"}])"),
                 "added_tokens[0]: 'b': expected an id less than 2, the number of tokens, got "
                 "nothing"));
  CHECK(contains(
      with(R"({"a": 0})", "[]", R"(, "added_tokens": [{"content": "b", "id": 1, "lstrip": true}])"),
      "added_tokens[0].lstrip: expected false, got true"));
  CHECK(contains(with(R"({"a": 1, "aa": 2, "b": 2})", "[]"), "expected"));
  CHECK(contains(
      message_of<ls::DataError>([&] { (void)ls::BytePairEncoding(folder.path("none.json")); }),
      "none.json': there is no such file"));
  // Whatever is cut off or changed is refused or read, and nothing else.
  const std::string_view whole = known::file;
  for (std::size_t size = 0; size < whole.size(); size += 97)
    CHECK_THROWS_AS((void)ls::BytePairEncoding(write(folder, "cut", whole.substr(0, size))),
                    ls::DataError);
  ls::RandomStream random{ls::RandomKey(3)};
  for (int i = 0; i < 200; ++i) {
    std::string changed(whole);
    for (int change = 0; change < 3; ++change)
      changed[random.below(changed.size())] = whole[random.below(whole.size())];
    try {
      const ls::BytePairEncoding tokenizer(write(folder, "changed", changed));
      (void)tokenizer.decode(tokenizer.encode(changed));
    } catch (const ls::DataError&) {
    }
  }
}

TEST_SUITE("tokenizers in Python [needs python]") {
  TEST_CASE(
      "BytePairEncoding: tokenizers gives the same ids, from our file and for ours from its") {
    if (!has_python_modules("tokenizer.json, both ways", "tokenizers")) return;
    const TemporaryFolder folder;
    ls::RandomStream random{ls::RandomKey(7)};
    std::vector<std::string> texts;
    std::string joined;
    for (int i = 0; i < 2'000; ++i) {
      texts.push_back(random_text(random, false));
      joined += texts.back() + '\0';
    }
    const std::string path = write(folder, "texts", joined);
    ls::BytePairEncoding::train(texts, {.vocabulary_size = 600, .special_tokens = {"the"}})
        .save(folder.path("ours.json"));
    const Finished finished = run_python(
        R"py(
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
texts, ours, theirs, ids = sys.argv[1:]
texts = open(texts, newline="", encoding="utf-8").read().split("\0")[:-1]
trained = Tokenizer(models.BPE())
trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trained.decoder = decoders.ByteLevel()
trained.train_from_iterator(texts, trainers.BpeTrainer(
    vocab_size=600, special_tokens=["the"], show_progress=False,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
trained.save(theirs)
loaded = Tokenizer.from_file(ours)
assert loaded.get_vocab() == trained.get_vocab()
with open(ids, "w") as file:
    for text in texts:
        encoded = loaded.encode(text).ids
        assert encoded == trained.encode(text).ids, text
        assert loaded.decode(encoded, skip_special_tokens=False) == text
        file.write("".join(f"{id} " for id in encoded) + "\n")
)py",
        {path, folder.path("ours.json"), folder.path("theirs.json"), folder.path("ids")});
    INFO(finished.output);
    REQUIRE(finished.exit_code == 0);
    for (const char* const name : {"ours.json", "theirs.json"}) {
      const ls::BytePairEncoding tokenizer(folder.path(name));
      std::string all;
      for (const std::string& text : texts) {
        for (const std::uint32_t id : tokenizer.encode(text)) all += ls::concat({id, " "});
        all += '\n';
      }
      CHECK(all == file_text(folder.path("ids")));
    }
  }
}
