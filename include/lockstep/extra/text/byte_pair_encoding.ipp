#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/byte_pair_encoding.hpp"
#include "lockstep/extra/text/detail/json_tree.hpp"
#include "lockstep/extra/text/detail/unicode.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Where the word at the beginning of a text ends, which is not empty: GPT-2's regular expression,
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
LOCKSTEP_INLINE std::size_t end_of_word(std::string_view text) {
  if (text[0] == '\'')
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (text.starts_with(ending)) return ending.size();

  std::size_t last = 0;  // where the last character begins that was passed over
  const auto pass_over = [&](std::size_t i, CharacterClass kind) {
    while (i < text.size()) {
      const Character next = first_character(text.substr(i));
      if (class_of_character(next.code) != kind) break;
      last = i;
      i += next.size;
    }
    return i;
  };
  const std::size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = class_of_character(first_character(text.substr(begin)).code);
  if (kind != CharacterClass::space) return pass_over(begin, kind);
  const std::size_t end = pass_over(0, CharacterClass::space);
  return end == text.size() || last == 0 ? end : last;
}

/// Bytes as the characters that stand for them in the file: those that can be seen as themselves,
/// the others from U+0100 on, in their order.
struct ByteAlphabet {
  std::array<char32_t, 256> code{};
  std::array<int, 0x144> byte{};  ///< -1: the character stands for none

  constexpr ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned i = 0; i < 256; ++i) {
      const bool is_seen = (i >= '!' && i <= '~') || (i >= 0xA1 && i != 0xAD);
      code[i] = is_seen ? i : next++;
      byte[code[i]] = static_cast<int>(i);
    }
  }
};
inline constexpr ByteAlphabet byte_alphabet{};

LOCKSTEP_INLINE std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) {
    const char32_t code = byte_alphabet.code[static_cast<unsigned char>(c)];
    if (code >= 0x80) token += static_cast<char>(0xC0 | code >> 6);
    token += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return token;
}

/// As tokenizers does, a token with another character stands for itself.
LOCKSTEP_INLINE std::string bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::string_view rest = token; !rest.empty();) {
    const Character next = first_character(rest);
    if (next.code >= byte_alphabet.byte.size() || byte_alphabet.byte[next.code] < 0)
      return std::string(token);
    bytes += static_cast<char>(byte_alphabet.byte[next.code]);
    rest.remove_prefix(next.size);
  }
  return bytes;
}

inline constexpr std::uint32_t no_token = ~std::uint32_t{0};

[[nodiscard]] constexpr std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) noexcept {
  return std::uint64_t{left} << 32 | right;
}

struct AddedToken {
  std::string content;
  std::uint32_t id;
  bool is_special;
  bool is_normalized;
};

/// Memory of a call of encode.
struct MergeMemory {
  struct Symbol {
    std::uint32_t id, previous, next;
  };
  std::vector<Symbol> symbols = {};
  std::vector<std::uint64_t> heap = {};  // rank << 32 | place, the least first
};

struct BytePairs {
  struct Merge {
    std::uint32_t left, right, made;
  };
  std::vector<std::string> tokens = {};  ///< of each id, as in the file
  std::vector<std::string> bytes = {};   ///< what they stand for
  std::vector<Merge> merges = {};        ///< the first to be done first
  std::vector<AddedToken> added = {};    ///< in the order of their ids
  bool add_prefix_space = false;

  std::array<std::uint32_t, 256> byte_ids = {};
  std::unordered_map<std::string_view, std::uint32_t> ids = {};  ///< of tokens
  std::unordered_map<std::uint64_t, std::uint32_t> ranks = {};   ///< of pairs, in merges
  /// Words that merges make one token of: most of a text, found without them.
  std::unordered_map<std::string_view, std::uint32_t> words = {};

  BytePairs() = default;
  BytePairs(const BytePairs&) = delete;
  BytePairs& operator=(const BytePairs&) = delete;

  /// Makes the rest from tokens, merges and added tokens.
  void finish();
  void merge(std::string_view word, MergeMemory& memory, std::vector<std::uint32_t>& out) const;
  void encode_words(std::string_view text, MergeMemory& memory,
                    std::vector<std::uint32_t>& out) const;
  void encode(std::string_view text, int pass, MergeMemory& memory,
              std::vector<std::uint32_t>& out) const;
};

LOCKSTEP_INLINE void BytePairs::finish() {
  bytes.reserve(tokens.size());
  for (const std::string& token : tokens) bytes.push_back(bytes_of_token(token));
  byte_ids.fill(no_token);
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    ids.emplace(tokens[id], id);
    if (bytes[id].size() == 1 && tokens[id] == token_of_bytes(bytes[id]))
      byte_ids[static_cast<unsigned char>(bytes[id][0])] = id;
  }
  ranks.reserve(merges.size());
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank)
    ranks[pair_key(merges[rank].left, merges[rank].right)] = rank;
  MergeMemory memory;
  std::vector<std::uint32_t> out;
  const auto has_ids = [&](std::string_view word) {
    return std::ranges::all_of(
        word, [&](char c) { return byte_ids[static_cast<unsigned char>(c)] != no_token; });
  };
  words.reserve(merges.size());
  for (const Merge& made : merges) {
    out.clear();
    if (!has_ids(bytes[made.made])) continue;
    merge(bytes[made.made], memory, out);
    if (out.size() == 1) words.emplace(bytes[made.made], out[0]);
  }
}

/// Of all pairs of neighbours, the one of the least rank is merged first, and of equal ones the
/// first in the word: a heap of pairs, of which those that are no more are passed over.
LOCKSTEP_INLINE void BytePairs::merge(std::string_view word, MergeMemory& memory,
                                      std::vector<std::uint32_t>& out) const {
  std::vector<MergeMemory::Symbol>& symbols = memory.symbols;
  std::vector<std::uint64_t>& heap = memory.heap;
  symbols.clear();
  heap.clear();
  const auto size = static_cast<std::uint32_t>(word.size());
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    if (byte_ids[byte] == no_token)
      throw DataError(concat({"BytePairEncoding: the vocabulary has no token for the byte 0x",
                              hex_text(byte, 2),
                              ", which the text has: train with the whole alphabet "
                              "(initial_alphabet = ByteLevel.alphabet())"}));
    symbols.push_back({byte_ids[byte], i - 1, i + 1 < size ? i + 1 : no_token});
  }
  const auto consider = [&](std::uint32_t place) {
    const std::uint32_t next = symbols[place].next;
    if (next == no_token) return;
    const auto found = ranks.find(pair_key(symbols[place].id, symbols[next].id));
    if (found == ranks.end()) return;
    heap.push_back(std::uint64_t{found->second} << 32 | place);
    std::ranges::push_heap(heap, std::greater<>());
  };
  for (std::uint32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater<>());
    const Merge& merge = merges[static_cast<std::size_t>(heap.back() >> 32)];
    const auto place = static_cast<std::uint32_t>(heap.back());
    heap.pop_back();
    MergeMemory::Symbol& left = symbols[place];
    if (left.id != merge.left || left.next == no_token || symbols[left.next].id != merge.right)
      continue;
    MergeMemory::Symbol& right = symbols[left.next];
    left.id = merge.made;
    left.next = right.next;
    right.id = no_token;
    if (left.next != no_token) symbols[left.next].previous = place;
    if (left.previous != no_token) consider(left.previous);
    consider(place);
  }
  for (std::uint32_t i = 0; i < size; i = symbols[i].next) out.push_back(symbols[i].id);
}

LOCKSTEP_INLINE void BytePairs::encode_words(std::string_view text, MergeMemory& memory,
                                             std::vector<std::uint32_t>& out) const {
  std::string prefixed;
  if (add_prefix_space && !text.empty() && text[0] != ' ') text = prefixed.append(" ").append(text);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, end_of_word(text));
    text.remove_prefix(word.size());
    if (const auto found = words.find(word); found != words.end())
      out.push_back(found->second);
    else
      merge(word, memory, out);
  }
}

/// Cuts the text at its added tokens: first at those that a normalizer would not change, then, in
/// what is between them, at the others. At a place the longest counts.
LOCKSTEP_INLINE void BytePairs::encode(std::string_view text, int pass, MergeMemory& memory,
                                       std::vector<std::uint32_t>& out) const {
  if (pass == 2) return encode_words(text, memory, out);
  std::array<bool, 256> begins{};
  for (const AddedToken& token : added)
    if (token.is_normalized == (pass == 1))
      begins[static_cast<unsigned char>(token.content[0])] = true;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins[static_cast<unsigned char>(text[i])]) continue;
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : added)
      if (token.is_normalized == (pass == 1) && text.substr(i).starts_with(token.content) &&
          (longest == nullptr || token.content.size() > longest->content.size()))
        longest = &token;
    if (longest == nullptr) continue;
    encode(text.substr(done, i - done), pass + 1, memory, out);
    out.push_back(longest->id);
    done = i + longest->content.size();
    i = done - 1;
  }
  encode(text.substr(done), pass + 1, memory, out);
}

// --- tokenizer.json ------------------------------------------------------------------------------

LOCKSTEP_INLINE void check_kind_of_tokenizer(const JsonFile& file) {
  const auto expect = [&](const JsonTree& object, std::string_view place, std::string_view key,
                          std::string_view expected, bool is_good) {
    if (!is_good)
      file.refuse(JsonFile::place_of(place, key), expected, file.find(object, place, key));
  };
  const auto is_null = [](const JsonTree* value) { return value == nullptr || value->is_null(); };
  const auto is_type = [&](const JsonTree& object, std::string_view place, std::string_view type) {
    const JsonTree* const found = file.find(object, place, "type");
    return found != nullptr && found->text() != nullptr && *found->text() == type;
  };
  const JsonTree& root = file.root();
  for (const std::string_view key : {"normalizer", "truncation", "padding"})
    expect(root, "", key, "null: this would change texts or ids",
           is_null(file.find(root, "", key)));
  const JsonTree* const post = file.find(root, "", "post_processor");
  expect(root, "", "post_processor", "null or one of type ByteLevel",
         is_null(post) || is_type(*post, "post_processor", "ByteLevel"));
  const JsonTree& words = file.at(root, "", "pre_tokenizer", JsonTree::Kind::object);
  expect(words, "pre_tokenizer", "type", "'ByteLevel' (GPT-2's)",
         is_type(words, "pre_tokenizer", "ByteLevel"));
  const JsonTree* const regex = file.find(words, "pre_tokenizer", "use_regex");
  expect(words, "pre_tokenizer", "use_regex", "true", regex == nullptr || regex->is_true());
  const JsonTree& model = file.at(root, "", "model", JsonTree::Kind::object);
  const JsonTree* const type = file.find(model, "model", "type");
  expect(model, "model", "type", "'BPE'", type == nullptr || is_type(model, "model", "BPE"));
  expect(model, "model", "dropout", "null", is_null(file.find(model, "model", "dropout")));
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonTree* const affix = file.find(model, "model", key);
    expect(model, "model", key, "null or ''",
           is_null(affix) || (affix->text() && affix->text()->empty()));
  }
  for (const std::string_view key : {"byte_fallback", "ignore_merges"}) {
    const JsonTree* const flag = file.find(model, "model", key);
    expect(model, "model", key, "false", flag == nullptr || !flag->is_true());
  }
}

LOCKSTEP_INLINE std::shared_ptr<const BytePairs> read_tokenizer(const std::string& path) {
  using enum JsonTree::Kind;
  const JsonFile file("tokenizer.json", path);
  check_kind_of_tokenizer(file);
  auto pairs = std::make_shared<BytePairs>();
  const JsonTree& root = file.root();
  const JsonTree* const prefix =
      file.find(*file.find(root, "", "pre_tokenizer"), "", "add_prefix_space");
  pairs->add_prefix_space = prefix == nullptr || prefix->is_true();

  const JsonTree& model = file.at(root, "", "model", object);
  const JsonTree& vocabulary = file.at(model, "model", "vocab", object);
  const JsonTree* const added = file.find(root, "", "added_tokens");
  const std::size_t most =
      vocabulary.children.size() + (added == nullptr ? 0 : added->children.size());
  std::vector<const JsonTree*> of_id(most);
  std::size_t size = 0;
  const auto take = [&](const std::string& token, const JsonTree* id, const std::string& place) {
    if (id == nullptr || id->number() == nullptr || *id->number() >= most)
      file.refuse(place, concat({"an id less than ", most, ", the number of tokens"}), id);
    const auto number = static_cast<std::size_t>(*id->number());
    size = std::max(size, number + 1);
    pairs->tokens.resize(std::max(size, pairs->tokens.size()));
    if (of_id[number] != nullptr && pairs->tokens[number] != token)
      file.refuse(place,
                  concat({"an id that no other token has; ", in_quotes(pairs->tokens[number], 60),
                          " has it too"}),
                  id);
    of_id[number] = id;
    pairs->tokens[number] = token;
    return static_cast<std::uint32_t>(number);
  };
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (const JsonTree& token : vocabulary.children)
    if (!ids.emplace(token.key,
                     take(token.key, &token, concat({"model.vocab: ", in_quotes(token.key, 60)})))
             .second)
      file.refuse(concat({"model.vocab: ", in_quotes(token.key, 60)}), "each token once", &token);

  if (added != nullptr && added->kind != array) file.refuse("added_tokens", "a list", added);
  for (std::size_t i = 0; added != nullptr && i < added->children.size(); ++i) {
    const JsonTree& token = added->children[i];
    const std::string place = concat({"added_tokens[", i, "]"});
    const JsonTree& content = file.at(token, place, "content", scalar);
    if (content.text() == nullptr || content.text()->empty())
      file.refuse(place + ".content", "a text that is not empty", &content);
    const auto flag = [&](std::string_view key) {
      const JsonTree* const value = file.find(token, place, key);
      return value != nullptr && value->is_true();
    };
    for (const std::string_view key : {"single_word", "lstrip", "rstrip"})
      if (flag(key))
        file.refuse(JsonFile::place_of(place, key), "false", file.find(token, place, key));
    const auto id = take(*content.text(), file.find(token, place, "id"), place + ".id");
    pairs->added.push_back({*content.text(), id, flag("special"), flag("normalized")});
  }
  for (std::size_t id = 0; id < size; ++id)
    if (of_id[id] == nullptr)
      file.refuse("model.vocab",
                  concat({"a token for each id from 0 to ", size - 1, "; ", id, " has none"}),
                  nullptr);

  const JsonTree& merges = file.at(model, "model", "merges", array);
  pairs->merges.reserve(merges.children.size());
  for (const JsonTree& merge : merges.children) {
    const auto refuse = [&](std::string_view expected, const JsonTree* got) {
      file.refuse(concat({"model.merges[", pairs->merges.size(), "]"}), expected, got);
    };
    std::string_view left, right;
    if (merge.kind == array && merge.children.size() == 2 && merge.children[0].text() &&
        merge.children[1].text()) {
      left = *merge.children[0].text();
      right = *merge.children[1].text();
    } else if (merge.text() != nullptr) {
      const std::string_view both = *merge.text();
      left = both.substr(0, both.find(' '));
      right = both.substr(std::min(left.size() + 1, both.size()));
    } else {
      refuse("two tokens", &merge);
    }
    const auto l = ids.find(left), r = ids.find(right), m = ids.find(concat({left, right}));
    if (l == ids.end() || r == ids.end() || m == ids.end())
      refuse("two tokens that are in model.vocab, and what they make too", &merge);
    pairs->merges.push_back({l->second, r->second, m->second});
  }
  pairs->finish();
  return pairs;
}

LOCKSTEP_INLINE std::string tokenizer_json(const BytePairs& pairs) {
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  std::string json = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  std::string_view comma = "\n    ";
  for (const AddedToken& token : pairs.added)
    json +=
        concat({std::exchange(comma, ",\n    "), "{\"id\": ", token.id,
                ", \"content\": ", json_text(token.content),
                ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": ",
                truth(token.is_normalized), ", \"special\": ", truth(token.is_special), "}"});
  json += concat({R"(
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": )",
                  truth(pairs.add_prefix_space), R"(, "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {)"});
  comma = "\n      ";
  for (std::size_t id = 0; id < pairs.tokens.size(); ++id)
    json += concat({std::exchange(comma, ",\n      "), json_text(pairs.tokens[id]), ": ", id});
  json += "\n    },\n    \"merges\": [";
  comma = "\n      ";
  for (const BytePairs::Merge& merge : pairs.merges)
    json += concat({std::exchange(comma, ",\n      "),
                    json_text(concat({pairs.tokens[merge.left], " ", pairs.tokens[merge.right]}))});
  return json + "\n    ]\n  }\n}\n";
}

// --- training ------------------------------------------------------------------------------------

struct WordCounts::Counts : std::unordered_map<std::string, std::int64_t> {};

LOCKSTEP_INLINE WordCounts::WordCounts(const BytePairTrainingOptions& options)
    : options_(options), counts_(std::make_unique<Counts>()) {
  if (options.vocabulary_size < 256 + options.special_tokens.size())
    throw ConfigurationError(
        concat({"BytePairEncoding::train: expected .vocabulary_size to be at least ",
                256 + options.special_tokens.size(), " (256 bytes and the special tokens), got ",
                options.vocabulary_size}));
  for (auto token = options.special_tokens.begin(); token != options.special_tokens.end(); ++token)
    if (!is_utf8(*token) || token->empty() || first_character(*token).size == token->size() ||
        std::find(options.special_tokens.begin(), token, *token) != token)
      throw ConfigurationError(
          concat({"BytePairEncoding::train: the special token ", in_quotes(*token),
                  " is empty, a single character, repeated, or no UTF-8"}));
}
LOCKSTEP_INLINE WordCounts::~WordCounts() = default;

LOCKSTEP_INLINE void WordCounts::add(std::string_view text) {
  std::string prefixed;
  if (options_.add_prefix_space && !text.empty() && text[0] != ' ')
    text = prefixed.append(" ").append(text);
  while (!text.empty()) {
    const std::size_t end = end_of_word(text);
    ++(*counts_)[std::string(text.substr(0, end))];
    text.remove_prefix(end);
  }
}

/// The most frequent pair is merged, of equally frequent ones that of the lesser ids, as long as
/// there is room: what BpeTrainer of tokenizers does.
LOCKSTEP_INLINE std::shared_ptr<const BytePairs> WordCounts::train() const {
  struct Word {
    std::vector<std::uint32_t> symbols;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words = {};
  };
  auto pairs = std::make_shared<BytePairs>();
  pairs->add_prefix_space = options_.add_prefix_space;
  for (const std::string& token : options_.special_tokens) {
    pairs->added.push_back({token, static_cast<std::uint32_t>(pairs->tokens.size()), true, false});
    pairs->tokens.push_back(token);
  }
  std::unordered_map<std::string, std::uint32_t> ids;
  std::array<std::uint32_t, 256> byte_ids{};
  for (char32_t code = 0; code < byte_alphabet.byte.size(); ++code) {
    if (byte_alphabet.byte[code] < 0) continue;
    const char byte = static_cast<char>(byte_alphabet.byte[code]);
    byte_ids[static_cast<unsigned char>(byte)] = static_cast<std::uint32_t>(pairs->tokens.size());
    pairs->tokens.push_back(token_of_bytes({&byte, 1}));
  }
  for (std::uint32_t id = 0; id < pairs->tokens.size(); ++id) ids.emplace(pairs->tokens[id], id);

  std::vector<Word> words;
  std::unordered_map<std::uint64_t, Pair> counts;
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>> queue;  // of the count and ~pair
  const auto count_pairs = [&](std::size_t word, std::int64_t sign) {
    const std::vector<std::uint32_t>& symbols = words[word].symbols;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      Pair& pair = counts[pair_key(symbols[i], symbols[i + 1])];
      pair.count += sign * words[word].count;
      if (sign > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
    }
  };
  for (const auto& [text, count] : *counts_) {
    Word& word = words.emplace_back(Word{{}, count});
    for (const char c : text) word.symbols.push_back(byte_ids[static_cast<unsigned char>(c)]);
    count_pairs(words.size() - 1, 1);
  }
  for (const auto& [key, pair] : counts) queue.emplace(pair.count, ~key);

  while (pairs->tokens.size() < options_.vocabulary_size && !queue.empty()) {
    const auto [count, inverted] = queue.top();
    queue.pop();
    const std::uint64_t key = ~inverted;
    const auto found = counts.find(key);
    if (found == counts.end()) continue;
    if (found->second.count != count) {
      if (found->second.count > 0) queue.emplace(found->second.count, inverted);
      continue;
    }
    if (count < 1 || static_cast<std::uint64_t>(count) < options_.min_frequency) break;
    const auto left = static_cast<std::uint32_t>(key >> 32),
               right = static_cast<std::uint32_t>(key);
    const std::string token = pairs->tokens[left] + pairs->tokens[right];
    const auto [at, is_new] = ids.emplace(token, static_cast<std::uint32_t>(pairs->tokens.size()));
    if (is_new) pairs->tokens.push_back(token);
    pairs->merges.push_back({left, right, at->second});
    const std::vector<std::size_t> affected = std::move(found->second.words);
    std::vector<std::uint64_t> grown;
    for (const std::size_t word : affected) {
      std::vector<std::uint32_t>& symbols = words[word].symbols;
      count_pairs(word, -1);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const bool merges = i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
        symbols[kept++] = merges ? at->second : symbols[i];
        if (merges) ++i;
      }
      symbols.resize(kept);
      count_pairs(word, 1);
      for (std::size_t i = 0; i + 1 < kept; ++i)
        if (symbols[i] == at->second || symbols[i + 1] == at->second)
          grown.push_back(pair_key(symbols[i], symbols[i + 1]));
    }
    counts.erase(key);
    std::ranges::sort(grown);
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const std::uint64_t pair : grown)
      if (const auto now = counts.find(pair); now != counts.end())
        queue.emplace(now->second.count, ~pair);
  }
  pairs->finish();
  return pairs;
}

}  // namespace detail

LOCKSTEP_INLINE BytePairEncoding::BytePairEncoding(const std::string& path)
    : pairs_(detail::read_tokenizer(path)) {}

LOCKSTEP_INLINE void BytePairEncoding::save(const std::string& path) const {
  detail::write_text(path, detail::tokenizer_json(*pairs_));
}

LOCKSTEP_INLINE std::vector<std::uint32_t> BytePairEncoding::encode(std::string_view text) const {
  std::vector<std::uint32_t> ids;
  encode(text, ids);
  return ids;
}
LOCKSTEP_INLINE void BytePairEncoding::encode(std::string_view text,
                                              std::vector<std::uint32_t>& ids) const {
  detail::MergeMemory memory;
  pairs_->encode(text, 0, memory, ids);
}

LOCKSTEP_INLINE std::string BytePairEncoding::decode(std::span<const std::uint32_t> ids,
                                                     bool skip_special_tokens) const {
  std::string text;
  for (const std::uint32_t id : ids) {
    if (id >= pairs_->bytes.size())
      throw DataError(concat({"BytePairEncoding: there is no id ", id, ": the vocabulary has ",
                              pairs_->bytes.size(), " tokens"}));
    const auto is_it = [&](const detail::AddedToken& token) {
      return token.is_special && token.id == id;
    };
    if (!skip_special_tokens || std::ranges::none_of(pairs_->added, is_it))
      text += pairs_->bytes[id];
  }
  return text;
}

LOCKSTEP_INLINE std::size_t BytePairEncoding::vocabulary_size() const noexcept {
  return pairs_->tokens.size();
}

LOCKSTEP_INLINE std::optional<std::uint32_t> BytePairEncoding::token_to_id(
    std::string_view token) const {
  const auto found = pairs_->ids.find(token);
  return found == pairs_->ids.end() ? std::nullopt : std::optional(found->second);
}

}}  // namespace lockstep
