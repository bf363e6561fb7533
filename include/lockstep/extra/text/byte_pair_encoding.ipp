#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
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

template <class F>
void each_word(std::string_view text, bool add_prefix_space, const F& f) {
  std::string prefixed;
  if (add_prefix_space && !text.empty() && text[0] != ' ') text = prefixed.append(" ").append(text);
  while (!text.empty()) {
    const std::size_t end = end_of_word(text);
    f(text.substr(0, end));
    text.remove_prefix(end);
  }
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
  std::vector<AddedToken> added = {};    ///< in the order of the file
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
  void finish() {
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
    words.reserve(merges.size());
    for (const Merge& made : merges) {
      out.clear();
      merge(bytes[made.made], memory, out);
      if (out.size() == 1 && out[0] != no_token) words.emplace(bytes[made.made], out[0]);
    }
  }
  /// Appends the tokens of a word, no_token for a byte without one. Merges the pair of neighbours
  /// with the least rank first, and the first in the word of equal ones: a heap of pairs, which
  /// skips pairs that no longer exist.
  void merge(std::string_view word, MergeMemory& memory, std::vector<std::uint32_t>& out) const {
    std::vector<MergeMemory::Symbol>& symbols = memory.symbols;
    std::vector<std::uint64_t>& heap = memory.heap;
    symbols.clear();
    heap.clear();
    const auto size = static_cast<std::uint32_t>(word.size());
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t id = byte_ids[static_cast<unsigned char>(word[i])];
      symbols.push_back({id, i - 1, i + 1 < size ? i + 1 : no_token});
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
  /// Cuts the text at its added tokens: first at those that a normalizer would not change, then, in
  /// what is between them, at the others. At a place the longest counts.
  void encode(std::string_view text, int pass, MergeMemory& memory,
              std::vector<std::uint32_t>& out) const {
    if (pass == 2)
      return each_word(text, add_prefix_space, [&](std::string_view word) {
        if (const auto found = words.find(word); found != words.end())
          out.push_back(found->second);
        else
          merge(word, memory, out);
      });
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
};

// --- tokenizer.json ------------------------------------------------------------------------------

/// What would make other ids than encode does is refused.
LOCKSTEP_INLINE void check_kind_of_tokenizer(const JsonFile& file) {
  struct Rule {
    std::string_view place, expected;
    bool may_be_missing = true;
  };
  constexpr Rule rules[] = {{"normalizer", "null"},
                            {"truncation", "null"},
                            {"padding", "null"},
                            {"pre_tokenizer.type", "'ByteLevel'", false},
                            {"pre_tokenizer.use_regex", "true"},
                            {"post_processor.type", "'ByteLevel'"},
                            {"model.type", "'BPE'"},
                            {"model.dropout", "null"},
                            {"model.continuing_subword_prefix", "null or ''"},
                            {"model.end_of_word_suffix", "null or ''"},
                            {"model.byte_fallback", "false"},
                            {"model.ignore_merges", "false"},
                            {"model.vocab", "an object", false},
                            {"model.merges", "a list", false},
                            {"added_tokens", "a list"}};
  for (const Rule& rule : rules) {
    const std::size_t dot = rule.place.find('.');
    const JsonTree& outer = file.root()[rule.place.substr(0, dot)];
    const JsonTree& found = dot == rule.place.npos ? outer : outer[rule.place.substr(dot + 1)];
    const bool is_missing = !found.exists() && rule.may_be_missing;
    const std::string got = found.described();
    if (!is_missing && !rule.expected.starts_with(got) && !rule.expected.ends_with(got))
      file.refuse(rule.place, rule.expected, found);
  }
}

LOCKSTEP_INLINE std::shared_ptr<const BytePairs> read_tokenizer(const std::string& path) {
  const JsonFile file("tokenizer.json", path);
  check_kind_of_tokenizer(file);
  auto pairs = std::make_shared<BytePairs>();
  const JsonTree& prefix = file.root()["pre_tokenizer"]["add_prefix_space"];
  pairs->add_prefix_space = !prefix.exists() || prefix.is_true();

  const std::vector<JsonTree>& vocabulary = file.root()["model"]["vocab"].children;
  const std::vector<JsonTree>& added = file.root()["added_tokens"].children;
  const std::size_t most = vocabulary.size() + added.size();
  std::unordered_map<std::string_view, std::uint32_t> ids;
  const auto take = [&](const std::string& token, const JsonTree& id, std::string_view place) {
    const auto refuse = [&](std::string_view expected) {
      file.refuse(concat({place, in_quotes(token, 60)}), expected, id);
    };
    if (token.empty()) refuse("a token that is not empty");
    if (id.number() == nullptr || *id.number() >= most)
      refuse(concat({"an id less than ", most, ", the number of tokens"}));
    const auto number = static_cast<std::uint32_t>(*id.number());
    if (number >= pairs->tokens.size()) pairs->tokens.resize(number + 1);
    if (!ids.emplace(token, number).second && ids[token] != number) refuse("each token once");
    std::string& its = pairs->tokens[number];
    if (!its.empty() && its != token)
      refuse(concat({"an id for this token alone, not for ", in_quotes(its, 60), " too"}));
    its = token;
    return number;
  };
  for (const JsonTree& token : vocabulary) take(token.key, token, "model.vocab: ");
  for (std::size_t i = 0; i < added.size(); ++i) {
    const std::string place = concat({"added_tokens[", i, "]"});
    const JsonTree& content = added[i]["content"];
    if (content.text() == nullptr || content.text()->empty())
      file.refuse(place + ".content", "a text that is not empty", content);
    for (const char* const flag : {"single_word", "lstrip", "rstrip"})
      if (added[i][flag].is_true())
        file.refuse(concat({place, ".", flag}), "false", added[i][flag]);
    pairs->added.push_back({*content.text(), take(*content.text(), added[i]["id"], place + ": "),
                            added[i]["special"].is_true(), added[i]["normalized"].is_true()});
  }
  for (std::size_t id = 0; id < pairs->tokens.size(); ++id)
    if (pairs->tokens[id].empty())
      file.refuse("model.vocab", concat({"a token for each id; ", id, " has none"}), {});

  for (const JsonTree& merge : file.root()["model"]["merges"].children) {
    const std::vector<JsonTree>& two = merge.children;  // or a text, "left right"
    const bool is_list = two.size() == 2 && two[0].text() && two[1].text();
    const std::string_view both = merge.text() ? std::string_view(*merge.text()) : "";
    const std::string_view left =
        is_list ? std::string_view(*two[0].text()) : both.substr(0, both.find(' '));
    const std::string_view right = is_list ? std::string_view(*two[1].text())
                                           : both.substr(std::min(left.size() + 1, both.size()));
    const auto l = ids.find(left), r = ids.find(right), m = ids.find(concat({left, right}));
    if (l == ids.end() || r == ids.end() || m == ids.end())
      file.refuse(concat({"model.merges[", pairs->merges.size(), "]"}),
                  "two tokens, which model.vocab has, and what they make too", merge);
    pairs->merges.push_back({l->second, r->second, m->second});
  }
  pairs->finish();
  return pairs;
}

LOCKSTEP_INLINE std::string tokenizer_json(const BytePairs& pairs) {
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  std::string json =
      "{\n  \"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n  \"added_tokens\": [";
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
                  truth(pairs.add_prefix_space), R"(, "trim_offsets": true},
  "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
  "model": {
    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
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

/// The most frequent pair is merged, of equally frequent ones that of the lesser ids, as long as
/// there is room: what BpeTrainer of tokenizers does.
LOCKSTEP_INLINE std::shared_ptr<const BytePairs> train_byte_pairs(
    EachText texts, const BytePairTrainingOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  if (options.vocabulary_size < 256 + special.size())
    throw ConfigurationError(concat(
        {"BytePairEncoding::train: expected .vocabulary_size to be at least ", 256 + special.size(),
         " (256 bytes and the special tokens), got ", options.vocabulary_size}));
  for (auto token = special.begin(); token != special.end(); ++token)
    if (!is_utf8(*token) || token->empty() || first_character(*token).size == token->size() ||
        std::find(special.begin(), token, *token) != token)
      throw ConfigurationError(
          concat({"BytePairEncoding::train: the special token ", in_quotes(*token),
                  " is empty, a single character, repeated, or no UTF-8"}));
  std::unordered_map<std::string, std::int64_t> word_counts;
  texts([&](std::string_view text) {
    each_word(text, options.add_prefix_space,
              [&](std::string_view word) { ++word_counts[std::string(word)]; });
  });

  struct Word {
    std::vector<std::uint32_t> symbols;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words = {};
  };
  auto pairs = std::make_shared<BytePairs>();
  pairs->add_prefix_space = options.add_prefix_space;
  for (const std::string& token : special) {
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
  for (const auto& [text, count] : word_counts) {
    Word& word = words.emplace_back(Word{{}, count});
    for (const char c : text) word.symbols.push_back(byte_ids[static_cast<unsigned char>(c)]);
    count_pairs(words.size() - 1, 1);
  }
  for (const auto& [key, pair] : counts) queue.emplace(pair.count, ~key);

  while (pairs->tokens.size() < options.vocabulary_size && !queue.empty()) {
    const auto [count, inverted] = queue.top();
    queue.pop();
    const std::uint64_t key = ~inverted;
    const auto found = counts.find(key);
    if (found == counts.end()) continue;
    if (found->second.count != count) {
      if (found->second.count > 0) queue.emplace(found->second.count, inverted);
      continue;
    }
    if (count < 1 || static_cast<std::uint64_t>(count) < options.min_frequency) break;
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
  const std::string json = detail::tokenizer_json(*pairs_);
  write_file_atomically(path, std::as_bytes(std::span(json)));
}

LOCKSTEP_INLINE std::vector<std::uint32_t> BytePairEncoding::encode(std::string_view text) const {
  std::vector<std::uint32_t> ids;
  encode(text, ids);
  return ids;
}
LOCKSTEP_INLINE void BytePairEncoding::encode(std::string_view text,
                                              std::vector<std::uint32_t>& ids) const {
  const auto first = static_cast<std::ptrdiff_t>(ids.size());
  detail::MergeMemory memory;
  pairs_->encode(text, 0, memory, ids);
  if (std::find(ids.begin() + first, ids.end(), detail::no_token) == ids.end()) return;
  for (const char c : concat({text, " "}))
    if (const auto byte = static_cast<unsigned char>(c); pairs_->byte_ids[byte] == detail::no_token)
      throw DataError(concat(
          {"BytePairEncoding: the vocabulary has no token for the byte 0x", hex_text(byte, 2),
           ", which the text has: train it with initial_alphabet = ByteLevel.alphabet()"}));
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
