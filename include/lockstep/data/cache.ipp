#pragma once

#include <span>
#include <utility>

#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/cache.hpp"
#include "lockstep/data/cache_store.hpp"
#include "lockstep/data/gather.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// What tells an element from others, its parts included.
inline void append_key(const Element& element, CacheStore::Key& key) {
  key.push_back(static_cast<std::uint64_t>(element.index));
  key.push_back(element.pass);
  if (element.parts.empty()) return;
  key.push_back(element.parts.size());
  for (const Element& part : element.parts) append_key(part, key);
}

}  // namespace detail

LOCKSTEP_INLINE Cache::Cache(AnyStage upstream, std::string path)
    : upstream_(std::move(upstream)),
      path_(std::move(path)),
      store_(std::make_shared<detail::CacheStore>(path_)) {}

LOCKSTEP_INLINE void Cache::shard_files(int num_shards, int index) {
  upstream_.shard_files(num_shards, index);
  if (!path_.empty()) path_ += concat({".", index, "-of-", num_shards});
  store_ = std::make_shared<detail::CacheStore>(path_);
}

LOCKSTEP_INLINE void Cache::begin(Pass pass) {
  upstream_.begin(Pass::of({.seed = path_.empty() ? pass.seed : 0, .number = 0}));
  pass_ = RandomKey(pass.seed).fold_in(pass.path.value()).value();
}

LOCKSTEP_INLINE bool Cache::next(Element& element) {
  Element kept;
  if (!upstream_.next(kept)) return false;
  element.index = kept.index;
  element.pass = RandomKey(pass_).fold_in(kept.pass).value();
  element.parts.clear();
  element.parts.push_back(std::move(kept));
  return true;
}

LOCKSTEP_INLINE void Cache::describe(PipelineDescription& description) const {
  upstream_.describe(description);
  description.add({path_.empty() ? "cache" : "cache(file)"});
}

LOCKSTEP_INLINE void Cache::open(std::size_t record_size) {
  if (store_->is_open(record_size)) return;
  std::string text;
  if (!path_.empty()) {
    PipelineDescription description;
    upstream_.describe(description);
    const SourceFingerprint source = upstream_.fingerprint();
    text = concat(
        {description.text, " (", source.samples, " samples, checksum ", source.checksum, ")"});
  }
  store_->open(record_size, text);
}

template <class T>
void Cache::read_kept(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const std::size_t count = samples.indices.size(), x_size = sample_size(), y_size = target_size();
  const std::size_t size = x_size + y_size;
  if (count == 0 || size == 0) return;
  open(size * sizeof(T));
  T* const records = records_.get<T>(count * size);
  const auto record = [&](std::size_t i) { return std::span<T>(records + i * size, size); };

  missing_.clear();
  missing_rows_.clear();
  missing_keys_.clear();
  detail::CacheStore::Key key;
  for (std::size_t i = 0; i < count; ++i) {
    key.clear();
    detail::append_key(samples.parts[i].front(), key);
    if (store_->find(key, std::as_writable_bytes(record(i)))) continue;
    missing_.push_back(samples.parts[i].front());
    missing_rows_.push_back(i);
    missing_keys_.push_back(key);
  }
  if (!missing_rows_.empty()) {
    const std::size_t absent = missing_rows_.size();
    const TensorView<T> from_x = samples_.view<T>(absent, x_size);
    const TensorView<T> from_y = targets_.view<T>(absent, y_size);
    upstream_.read(missing_, from_x, from_y);
    for (std::size_t i = 0; i < absent; ++i) {
      const std::span<T> row = record(missing_rows_[i]);
      detail::copy_out<T>(from_x, i, 1, row.data());
      detail::copy_out<T>(from_y, i, 1, row.data() + x_size);
      store_->insert(missing_keys_[i], std::as_bytes(row));
    }
  }
  const auto same = [](T value) { return value; };
  detail::scatter_rows<T, T>(
      count, [&](std::size_t i) -> const T* { return record(i).data(); }, x, same);
  if (!y.empty())
    detail::scatter_rows<T, T>(
        count, [&](std::size_t i) -> const T* { return record(i).data() + x_size; }, y, same);
}

LOCKSTEP_INLINE void Cache::read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
  read_kept(samples, x, y);
}
LOCKSTEP_INLINE void Cache::read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
  read_kept(samples, x, y);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
