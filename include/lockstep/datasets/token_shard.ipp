#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/token_shard.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE TokenShard::TokenShard(const std::string& path, TokenShardOptions options)
    : options_(options) {
  const std::size_t width = options.bytes_per_token;
  if (options.sequence_length == 0)
    throw ConfigurationError("from_token_shards: sequence_length must be at least 1, got 0");
  if (width != 1 && width != 2 && width != 4)
    throw ConfigurationError(
        concat({"from_token_shards: bytes_per_token must be 1, 2 or 4, got ", width}));
  if (options_.stride == 0) options_.stride = options_.sequence_length;
  file_ = std::make_shared<const detail::MappedFile>("from_token_shards", path);
  const std::span<const std::byte> bytes = file_->bytes();
  if (bytes.size() < options.header_bytes || (bytes.size() - options.header_bytes) % width != 0)
    throw DataError(concat({"from_token_shards: ", path, " has ", bytes.size(),
                            " bytes, which are not a header of ", options.header_bytes,
                            " and tokens of ", width, " bytes"}));
  tokens_ = bytes.subspan(options.header_bytes);
  // The last target lies one behind the last token of the sample.
  if (tokens() > options_.sequence_length)
    size_ =
        static_cast<std::int64_t>((tokens() - options_.sequence_length - 1) / options_.stride + 1);
}

LOCKSTEP_INLINE void TokenShard::describe(PipelineDescription& description) const {
  description.add(
      {"from_token_shards(", options_.sequence_length, ", stride ", options_.stride, ")"});
}

LOCKSTEP_INLINE std::uint32_t TokenShard::token(std::size_t i) const noexcept {
  std::uint32_t value = 0;
  for (std::size_t b = options_.bytes_per_token; b > 0; --b)
    value = value << 8 | static_cast<std::uint32_t>(tokens_[i * options_.bytes_per_token + b - 1]);
  return value;
}

template <class T>
void TokenShard::read_tokens(std::span<const std::int64_t> indices, TensorView<T> x,
                             TensorView<T> y) const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t first = static_cast<std::size_t>(indices[i]) * options_.stride;
    for (std::size_t t = 0; t < options_.sequence_length; ++t) {
      x(i, t) = static_cast<T>(token(first + t));
      if (!y.empty()) y(i, t) = static_cast<T>(token(first + t + 1));
    }
  }
}

LOCKSTEP_INLINE void TokenShard::read(std::span<const std::int64_t> indices, TensorView<float> x,
                                      TensorView<float> y) const {
  read_tokens(indices, x, y);
}
LOCKSTEP_INLINE void TokenShard::read(std::span<const std::int64_t> indices, TensorView<double> x,
                                      TensorView<double> y) const {
  read_tokens(indices, x, y);
}

LOCKSTEP_INLINE TokenShard TokenShardReader::operator()(const std::string& path) const {
  return {path, options};
}

}}  // namespace lockstep
