// Samples that are read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

class CacheStore;
}

/// Keeps each sample as it comes from upstream, maps included, when it is first read. As in
/// tf.data, every pass repeats the first one: its order, and its random augmentation; so shuffle
/// and augment behind the cache. Results do not depend on what has been kept.
///
/// In memory (no path) the copies of a pipeline in a process share what they keep. A file lasts
/// from run to run: its samples do not depend on the run's seed, and a program that would read
/// others into it, by the description of the pipeline and by a checksum of the source, is refused
/// with DataError. It belongs on a local disk, and to one process at a time: further ones use
/// "path.1", "path.2" and so on. Samples are kept as they are read, in float or double.
class Cache {
 public:
  using item_type = Element;
  static constexpr std::uint64_t depth = AnyStage::depth;

  Cache(AnyStage upstream, std::string path);

  void begin(Pass pass);
  bool next(Element& element);
  std::int64_t advance(std::int64_t n) { return upstream_.advance(n); }
  [[nodiscard]] std::int64_t cardinality() const { return upstream_.cardinality(); }
  [[nodiscard]] std::size_t sample_size() const { return upstream_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return upstream_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return upstream_.weight_size(); }
  [[nodiscard]] std::int64_t num_files() const { return upstream_.num_files(); }
  /// A file is then a worker's: "path.1-of-4".
  void shard_files(int num_shards, int index);
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return upstream_.sample_shape(); }
  void describe(PipelineDescription& description) const;
  [[nodiscard]] SourceFingerprint fingerprint() const { return upstream_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return upstream_.sample_name(i); }
  void read(ElementSpan samples, TensorView<float> x, TensorView<float> y);
  void read(ElementSpan samples, TensorView<double> x, TensorView<double> y);

 private:
  template <class T>
  void read_kept(ElementSpan samples, TensorView<T> x, TensorView<T> y);
  void open(std::size_t record_size);

  AnyStage upstream_;
  std::string path_;
  std::shared_ptr<detail::CacheStore> store_;
  std::uint64_t pass_ = 0;  ///< the key of the running pass
  ElementBatch missing_;
  std::vector<std::size_t> missing_rows_;
  std::vector<std::vector<std::uint64_t>> missing_keys_;
  detail::Scratch records_, samples_, targets_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/cache.ipp"
#endif
