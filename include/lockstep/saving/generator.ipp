#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/saving/generator.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Texts of one pass, at most: what run_decoding has room for.
inline constexpr std::size_t texts_at_once = 64;

template <class T>
Sampler<T>::Sampler(const GenerateOptions& options, std::size_t vocabulary)
    : temperature_(options.temperature), top_p_(options.top_p), top_k_(options.top_k) {
  const auto refuse = [](std::string_view name, double value, std::string_view expected) {
    throw ConfigurationError(concat(
        {"generate: .", name, " is ", number_text(value), "; expected a number ", expected}));
  };
  if (!(temperature_ >= 0 && std::isfinite(temperature_)))
    refuse("temperature", temperature_, "of 0 (greedy) or above");
  if (!(top_p_ > 0 && top_p_ <= 1)) refuse("top_p", top_p_, "above 0, and 1 at most (all tokens)");
  if (temperature_ == 0 && (top_k_ > 0 || top_p_ < 1))
    log_warning(
        "generate: .temperature is 0, which takes the most probable token, so that .top_k and "
        ".top_p do nothing: give a .temperature above 0, e.g. 1, or neither of them");
  if (temperature_ > 0) candidates_.reserve(vocabulary);
}

template <class T>
std::uint32_t Sampler<T>::draw(std::span<const T> logits, RandomKey key) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (std::ranges::any_of(logits, [](T logit) { return std::isnan(logit); }) ||
      !std::isfinite(*largest))
    throw DataError(
        "Generator: the model's output is not finite; its weights, or those of another model");
  if (temperature_ == 0) return static_cast<std::uint32_t>(largest - logits.begin());
  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id)
    candidates_.push_back({static_cast<double>(logits[id]), static_cast<std::uint32_t>(id)});
  // (Of equals the lower id comes first.)
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  if (top_k_ > 0 && top_k_ < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(top_k_),
                     candidates_.end(), before);
    candidates_.resize(top_k_);
  }
  const auto top = static_cast<double>(*largest);
  const auto weight = [&](const Candidate& c) { return std::exp((c.logit - top) / temperature_); };
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += weight(candidate);
  std::size_t count = candidates_.size();
  if (top_p_ < 1) {
    // A heap: only the tokens that stay are taken, to the end of the array.
    const auto after = [&](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::make_heap(candidates_.begin(), candidates_.end(), after);
    auto end = candidates_.end();
    double kept = 0;
    while (end != candidates_.begin() && kept < top_p_ * sum) {
      std::pop_heap(candidates_.begin(), end--, after);
      kept += weight(*end);
    }
    count = static_cast<std::size_t>(candidates_.end() - end);
    std::copy(end, candidates_.end(), candidates_.begin());
    candidates_.resize(count);
    sum = kept;
  }
  double left = RandomStream(key).uniform() * sum;
  std::size_t choice = 0;
  while (choice + 1 < count) {
    left -= weight(candidates_[choice]);
    if (left < 0) break;
    ++choice;
  }
  return candidates_[choice].token;
}

template <class T>
TextMemory<T>::TextMemory(const Decoder<T>& decoder, std::size_t texts, std::size_t most_rows)
    : lengths(texts), logits(texts * decoder.vocabulary) {
  for (std::size_t i = 0; i < texts; ++i) caches.emplace_back(decoder.cache * sizeof(T));
  passes.reserve(texts);
  make_room(decoder, most_rows);
}

template <class T>
void TextMemory<T>::make_room(const Decoder<T>& decoder, std::size_t for_rows) {
  if (for_rows <= rows) return;
  rows = for_rows;
  // (Attention needs most for 256 rows, or for all.)
  const std::size_t memory = std::max(
      {decoder.memory(1), decoder.memory(rows), decoder.memory(std::min<std::size_t>(rows, 256))});
  work = Buffer((decode_elements(1, rows) +
                 decode_elements(decoder.vocabulary, std::min(caches.size(), texts_at_once)) +
                 memory) *
                sizeof(T));
}

template <class T>
void TextWriter<T>::run(TextMemory<T>& memory, std::span<const std::size_t> texts,
                        std::span<const std::uint32_t> tokens) const {
  T* next = reinterpret_cast<T*>(memory.work.data());
  const TensorView<T> x = decode_view(next, 1, tokens.size());
  next += decode_elements(1, memory.rows);
  const std::size_t vocabulary = decoder_.vocabulary;
  const bool is_one = texts.size() == 1;
  const TensorView<T> y = decode_view(is_one ? memory.logits.data() + texts[0] * vocabulary : next,
                                      vocabulary, texts.size());
  next += decode_elements(vocabulary, std::min(memory.caches.size(), texts_at_once));
  x.clear_padding();
  for (std::size_t i = 0; i < tokens.size(); ++i) x(i, 0) = static_cast<T>(tokens[i]);
  memory.passes.clear();
  for (const std::size_t text : texts)
    memory.passes.push_back({tokens.size() / texts.size(), memory.lengths[text],
                             reinterpret_cast<T*>(memory.caches[text].data())});
  const kernels::WithOtherWeights<T> scope(variables_.mixed);
  decoder_.run({.weights = variables_.weights(),
                .state = variables_.states(),
                .texts = memory.passes,
                .x = x,
                .y = y,
                .memory = next,
                .last_rows = true});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    T* const logits = memory.logits.data() + texts[i] * vocabulary;
    if (!is_one)
      for (std::size_t id = 0; id < vocabulary; ++id) logits[id] = y(i, id);
    memory.lengths[texts[i]] += tokens.size() / texts.size();
    if (decoder_.masks_zero) logits[0] = -std::numeric_limits<T>::infinity();
  }
}

template <class T>
void TextWriter<T>::append(TextMemory<T>& memory, std::size_t text,
                           std::span<const std::uint32_t> tokens) const {
  if (tokens.empty())
    throw ConfigurationError(
        "Generator: a text goes on with at least one token, and there is none; a text without a "
        "prompt begins with the token that the model was trained to begin with");
  if (tokens.size() > decoder_.positions - memory.lengths[text])
    throw ConfigurationError(
        concat({"Generator: the text has ", memory.lengths[text], " tokens, and ", tokens.size(),
                " more do not fit: the model's sequence has ", decoder_.positions}));
  for (const std::uint32_t token : tokens)
    if (token >= decoder_.ids || (decoder_.masks_zero && token == 0))
      throw DataError(
          concat({"Generator: the token ", token, " is ",
                  token == 0 ? "padding (mask_zero), which no text has" : "not in the vocabulary",
                  "; expected ids from ", decoder_.masks_zero ? 1 : 0, " to ", decoder_.ids - 1}));
  memory.make_room(decoder_, std::min(tokens.size(), decoder_.at_once));
  const std::array texts{text};
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), decoder_.at_once);
    run(memory, texts, tokens.first(count));
    tokens = tokens.subspan(count);
  }
}

template <class T>
void TextWriter<T>::append_one(TextMemory<T>& memory, std::span<const std::size_t> texts,
                               std::span<const std::uint32_t> tokens) const {
  for (std::size_t first = 0; first < texts.size(); first += texts_at_once) {
    const std::size_t count = std::min(texts_at_once, texts.size() - first);
    run(memory, texts.subspan(first, count), tokens.subspan(first, count));
  }
}

template <class T>
std::vector<std::vector<std::uint32_t>> TextWriter<T>::generate(
    std::span<const std::span<const std::uint32_t>> prompts, const GenerateOptions& options) const {
  const std::size_t keep = options.keep_when_full, room = decoder_.positions;
  Sampler<T> sampler(options, decoder_.vocabulary);
  if (keep >= room)
    throw ConfigurationError(
        concat({"generate: .keep_when_full is ", keep,
                "; expected fewer tokens than the model's sequence has, ", room}));
  if (room == any_length && options.max_new_tokens == 0)
    throw ConfigurationError("generate: texts of this model have any length: give .max_new_tokens");
  std::size_t longest = 1;
  std::vector<std::vector<std::uint32_t>> texts;  // each begins with its prompt
  std::vector<std::size_t> begins, limits;
  for (const std::span<const std::uint32_t> prompt : prompts) {
    if (prompt.empty())
      throw ConfigurationError(
          "generate: the prompt has no tokens: begin with one, such as that which begins the texts "
          "of the training");
    const std::size_t used = keep > 0 && prompt.size() >= room ? keep : prompt.size();
    const std::size_t count = options.max_new_tokens > 0 ? options.max_new_tokens
                              : used < room              ? room - used
                                                         : 0;
    if (keep == 0 && (used > room || count > room - used || count == 0))
      throw ConfigurationError(
          concat({"generate: a prompt of ", used, " tokens and ", std::max<std::size_t>(count, 1),
                  " new ones do not fit: the model's sequence has ", room,
                  "; let .max_new_tokens be less, shorten the prompt, or let the text slide by "
                  ".keep_when_full = ",
                  std::max<std::size_t>(room / 2, 1)}));
    longest = std::max({longest, used, keep});
    texts.emplace_back(prompt.last(used).begin(), prompt.last(used).end());
    texts.back().reserve(used + std::min(count, std::size_t{1} << 20));
    begins.push_back(used);
    limits.push_back(used + count);
  }
  TextMemory<T> memory(decoder_, prompts.size(),
                       std::min(std::max(longest, std::min(prompts.size(), texts_at_once)),
                                std::max(decoder_.at_once, texts_at_once)));
  std::vector<std::size_t> writing(prompts.size()), together;
  std::iota(writing.begin(), writing.end(), std::size_t{0});
  std::vector<std::uint32_t> tokens;
  together.reserve(prompts.size());
  tokens.reserve(prompts.size());
  for (const std::size_t text : writing) append(memory, text, texts[text]);
  while (!writing.empty()) {
    together.clear();
    tokens.clear();
    std::erase_if(writing, [&](std::size_t text) {
      std::vector<std::uint32_t>& all = texts[text];
      const std::uint32_t token =
          sampler.draw(std::span<const T>(memory.logits)
                           .subspan(text * decoder_.vocabulary, decoder_.vocabulary),
                       RandomKey(options.seed).fold_in(text).fold_in(all.size() - begins[text]));
      if (std::ranges::find(options.stop, token) != options.stop.end()) return true;
      all.push_back(token);
      if (options.on_token && !options.on_token(token, text)) return true;
      if (all.size() == limits[text]) return true;
      if (memory.lengths[text] < room) {
        together.push_back(text);
        tokens.push_back(token);
      } else {
        memory.lengths[text] = 0;
        append(memory, text, std::span<const std::uint32_t>(all).last(std::min(keep, all.size())));
      }
      return false;
    });
    append_one(memory, together, tokens);
  }
  for (std::size_t text = 0; text < texts.size(); ++text)
    texts[text].erase(texts[text].begin(),
                      texts[text].begin() + static_cast<std::ptrdiff_t>(begins[text]));
  return texts;
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {
LOCKSTEP_INSTANCE(class Sampler<LOCKSTEP_REAL>);
LOCKSTEP_INSTANCE(class TextMemory<LOCKSTEP_REAL>);
LOCKSTEP_INSTANCE(class TextWriter<LOCKSTEP_REAL>);
}}}  // namespace lockstep::detail
