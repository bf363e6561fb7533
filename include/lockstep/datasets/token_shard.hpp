// Texts as numbers of tokens, for language models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct TokenShardOptions {
  std::size_t sequence_length = 0;  ///< tokens of a sample
  std::size_t stride = 0;  ///< tokens from a sample's first to that of the next; 0: sequence_length
  std::size_t bytes_per_token = 2;  ///< 1, 2 or 4: unsigned, little-endian
  std::size_t header_bytes = 0;     ///< before the first token: 1,024 in the shards of llm.c
};

/// A file of tokens, one after the other, without anything else: the .bin files of nanoGPT
/// (uint16). Sample i is the tokens from i * stride on, its target the same moved by one: what a
/// language model is to say next. A last sample that is not whole is left out. The system reads the
/// parts of the file that are asked for. Copies share the file; it must not become shorter
/// meanwhile.
class TokenShard {
 public:
  /// Throws ConfigurationError for a sequence_length of 0 and for other bytes_per_token, DataError
  /// when the file cannot be read or does not have a whole number of tokens.
  TokenShard(const std::string& path, TokenShardOptions options);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t sample_size() const noexcept { return options_.sequence_length; }
  [[nodiscard]] std::size_t target_size() const noexcept { return options_.sequence_length; }
  /// In the whole file.
  [[nodiscard]] std::size_t tokens() const noexcept {
    return tokens_.size() / options_.bytes_per_token;
  }
  void describe(PipelineDescription& description) const;
  void read(std::span<const std::int64_t> indices, TensorView<float> x, TensorView<float> y) const;
  void read(std::span<const std::int64_t> indices, TensorView<double> x,
            TensorView<double> y) const;

 private:
  template <class T>
  void read_tokens(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) const;
  [[nodiscard]] std::uint32_t token(std::size_t i) const noexcept;

  TokenShardOptions options_;
  std::shared_ptr<const detail::MappedFile> file_;
  std::span<const std::byte> tokens_;
  std::int64_t size_ = 0;
};

/// The reader of from_token_shards.
struct TokenShardReader {
  TokenShardOptions options;
  [[nodiscard]] TokenShard operator()(const std::string& path) const;
};

/// A pipeline of the samples of several shards; with AutoShardPolicy::file each worker reads its
/// own.
/// @code
/// from_token_shards({"train.bin"}, {.sequence_length = 256}).shuffle(100'000).batch(32)
/// @endcode
/// Use: `from_token_shards({"train.bin"}, {.sequence_length = 256})`. Keras: none.
template <class Reader = TokenShardReader>
[[nodiscard]] auto from_token_shards(std::vector<std::string> paths, TokenShardOptions options) {
  return from_files(std::move(paths), Reader{options});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/token_shard.ipp"
#endif
