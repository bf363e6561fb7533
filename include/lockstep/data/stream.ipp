#pragma once

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>
#include <unordered_map>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stream.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Any number of threads may use it.
class StreamRun {
 public:
  StreamRun(std::uint64_t pass, const StreamSizes& sizes, std::size_t keep,
            std::unique_ptr<OpenStream> stream)
      : pass_(pass), sizes_(sizes), keep_(keep), stream_(std::move(stream)) {}

  [[nodiscard]] std::uint64_t pass() const noexcept { return pass_; }

  /// Reads on until there is a sample of that number; false: the stream ends before it.
  bool reach(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    return reach_locked(number);
  }
  /// How many samples come before that number; at most that many are read.
  std::int64_t advance_to(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    if (number > 0) reach_locked(number - 1);
    return std::min(number, end_);
  }
  /// Whether it has all samples that it has read.
  [[nodiscard]] bool has_all() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(kept_.size()) == end_ && !failure_;
  }
  [[nodiscard]] std::int64_t size() {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  /// Copies a sample, unless it is kept no more.
  bool copy(std::int64_t number, std::vector<float>& to) {
    const std::lock_guard lock(mutex_);
    const std::int64_t first = end_ - static_cast<std::int64_t>(kept_.size());
    if (number < first || number >= end_) return false;
    to = kept_[static_cast<std::size_t>(number - first)];
    return true;
  }
  /// From now on, at least so many.
  void keep(std::size_t samples) {
    const std::lock_guard lock(mutex_);
    keep_ = std::max(keep_, samples);
  }

 private:
  bool reach_locked(std::int64_t number) {
    while (end_ <= number && stream_ != nullptr) read_next();
    if (end_ <= number && failure_) std::rethrow_exception(failure_);
    return end_ > number;
  }
  void read_next() {
    std::vector<float> values;
    if (kept_.size() >= std::max<std::size_t>(keep_, 1)) {
      values = std::move(kept_.front());
      kept_.pop_front();
    }
    values.assign(sizes_.sample_size + sizes_.target_size + sizes_.weight_size, 0.0F);
    const auto all = std::span(values);
    const auto rest = all.subspan(sizes_.sample_size);
    if (sizes_.weight_size > 0) std::fill(values.end() - 1, values.end(), 1.0F);
    Sample<float> sample{.x = all.first(sizes_.sample_size),
                         .y = rest.first(sizes_.target_size),
                         .index = end_,
                         .key = RandomKey(pass_).fold_in(static_cast<std::uint64_t>(end_)),
                         .weights = rest.subspan(sizes_.target_size)};
    try {
      if (!stream_->next(sample)) {
        stream_.reset();
        return;
      }
    } catch (...) {
      failure_ = std::current_exception();
      stream_.reset();
      throw;
    }
    kept_.push_back(std::move(values));
    ++end_;
  }

  const std::uint64_t pass_;
  const StreamSizes sizes_;
  std::mutex mutex_;
  std::size_t keep_;
  std::unique_ptr<OpenStream> stream_;   ///< null: it has ended
  std::deque<std::vector<float>> kept_;  ///< the newest samples
  std::int64_t end_ = 0;                 ///< samples that it has given
  std::exception_ptr failure_;
};

class StreamRuns {
 public:
  StreamRuns(OpensStream open, const StreamSizes& sizes)
      : open_(std::move(open)), sizes_(sizes), keep_(sizes.keep) {}

  /// The run of a pass that other copies have begun, if it has all of its samples, or a new one.
  std::shared_ptr<StreamRun> begin(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    std::erase_if(runs_, [](const auto& run) { return run.second.expired(); });
    if (const auto found = runs_.find(pass); found != runs_.end())
      if (auto run = found->second.lock(); run != nullptr && run->has_all()) return run;
    auto run = opened(pass);
    runs_[pass] = run;
    return run;
  }
  /// That of a pass, if there is one.
  std::shared_ptr<StreamRun> find(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(pass);
    return found == runs_.end() ? nullptr : found->second.lock();
  }
  /// One more of a pass.
  std::shared_ptr<StreamRun> again(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    return opened(pass);
  }
  [[nodiscard]] std::size_t keep() {
    const std::lock_guard lock(mutex_);
    return keep_;
  }
  /// A sample was wanted when there were so many newer ones.
  void missed(std::int64_t newer) {
    const std::lock_guard lock(mutex_);
    keep_ = std::max(keep_, 2 * static_cast<std::size_t>(std::max<std::int64_t>(newer, 1)));
    for (const auto& [pass, weak] : runs_)
      if (const auto run = weak.lock()) run->keep(keep_);
  }

 private:
  std::shared_ptr<StreamRun> opened(std::uint64_t pass) {
    return std::make_shared<StreamRun>(pass, sizes_, keep_, open_(RandomKey(pass)));
  }

  OpensStream open_;
  const StreamSizes sizes_;
  std::mutex mutex_;
  std::size_t keep_;
  std::unordered_map<std::uint64_t, std::weak_ptr<StreamRun>> runs_;
};

}  // namespace detail

LOCKSTEP_INLINE StreamStage::StreamStage(detail::OpensStream open, const StreamSizes& sizes)
    : sizes_(sizes), runs_(std::make_shared<detail::StreamRuns>(std::move(open), sizes)) {
  if (sizes.sample_size == 0)
    throw ConfigurationError("from_stream: .sample_size must be at least 1, got 0");
  if (sizes.weight_size > 1)
    throw ConfigurationError(
        concat({"from_stream: .weight_size must be 0 or 1, got ", sizes.weight_size}));
}

LOCKSTEP_INLINE void StreamStage::begin(Pass pass) {
  // A shuffle may still have samples of passes before this one.
  std::int64_t newer = 0;
  for (auto run = passes_.rbegin(); run != passes_.rend(); ++run) {
    if (newer >= static_cast<std::int64_t>(runs_->keep())) {
      passes_.erase(passes_.begin(), run.base());
      break;
    }
    newer += (*run)->size();
  }
  again_.reset();
  position_ = 0;
  const std::uint64_t key = RandomKey(pass.seed).fold_in(pass.path.value()).value();
  std::erase_if(passes_, [&](const auto& run) { return run->pass() == key; });
  passes_.push_back(runs_->begin(key));
}

LOCKSTEP_INLINE bool StreamStage::next(Element& element) {
  if (!passes_.back()->reach(position_)) return false;
  element.index = position_++;
  element.pass = passes_.back()->pass();
  return true;
}

LOCKSTEP_INLINE std::int64_t StreamStage::advance(std::int64_t n) {
  const std::int64_t from = position_;
  position_ = passes_.back()->advance_to(from + n);
  return position_ - from;
}

LOCKSTEP_INLINE std::string StreamStage::sample_name(std::int64_t i) const {
  return concat({"sample ", i, " of the stream"});
}

LOCKSTEP_INLINE void StreamStage::copy_sample(std::uint64_t pass, std::int64_t number,
                                              std::vector<float>& to) {
  const auto has = [&](detail::StreamRun* run) {
    return run != nullptr && run->pass() == pass && run->reach(number) && run->copy(number, to);
  };
  for (auto run = passes_.rbegin(); run != passes_.rend(); ++run)
    if (has(run->get())) return;
  if (has(again_.get())) return;
  if (has(runs_->find(pass).get())) return;  // (a copy that another stage reads by)
  std::int64_t newer = -number;
  for (auto run = passes_.rbegin(); run != passes_.rend(); ++run) {
    newer += (*run)->size();
    if ((*run)->pass() == pass) break;
  }
  runs_->missed(newer);
  again_ = runs_->again(pass);
  if (!has(again_.get()))
    throw DataError(concat({"from_stream: ", sample_name(number),
                            " is read again, and the stream ends before it: what open() begins "
                            "must give the same samples each time, or .keep be larger than the "
                            "buffers of shuffle (it is ",
                            sizes_.keep, ")"}));
}

template <class T>
void StreamStage::read_kept(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  std::vector<float> values;
  for (std::size_t i = 0; i < samples.indices.size(); ++i) {
    copy_sample(samples.passes[i], samples.indices[i], values);
    for (std::size_t f = 0; f < x.features(); ++f) x(i, f) = static_cast<T>(values[f]);
    if (y.empty()) continue;
    for (std::size_t f = 0; f < y.features(); ++f)
      y(i, f) = static_cast<T>(values[sizes_.sample_size + f]);
  }
}

LOCKSTEP_INLINE void StreamStage::read(ElementSpan samples, TensorView<float> x,
                                       TensorView<float> y) {
  read_kept(samples, x, y);
}
LOCKSTEP_INLINE void StreamStage::read(ElementSpan samples, TensorView<double> x,
                                       TensorView<double> y) {
  read_kept(samples, x, y);
}

}}  // namespace lockstep
