#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/stream.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What all streams that were opened for one pass must have in common: the samples 0 to 63, 127,
/// 255 and so on, and the end. A stream that cannot be read twice differs there. Any number of
/// threads may use it.
class StreamChecks {
 public:
  /// Whether sample `number` is what other streams of the pass gave.
  bool same_sample(std::int64_t number, std::span<const float> values) {
    const std::lock_guard lock(mutex_);
    given_ = std::max(given_, number + 1);
    if (ended_ && number >= *ended_) return false;
    if (number >= 64 && !std::has_single_bit(static_cast<std::uint64_t>(number) + 1)) return true;
    const std::size_t hash = std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    return hashes_.try_emplace(number, hash).first->second == hash;
  }
  /// Whether the others have no more samples either.
  bool same_end(std::int64_t samples) {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = samples;
    return *ended_ == samples && given_ <= samples;
  }

 private:
  std::mutex mutex_;
  std::int64_t given_ = 0;  ///< by the longest of them
  std::optional<std::int64_t> ended_;
  std::unordered_map<std::int64_t, std::size_t> hashes_;
};

/// Any number of threads may use it; one that waits for the next sample holds up only those that
/// want it too.
class StreamRun {
 public:
  StreamRun(std::uint64_t pass, const StreamSizes& sizes, std::size_t keep,
            std::shared_ptr<StreamChecks> checks, std::unique_ptr<OpenStream> stream)
      : pass_(pass),
        sizes_(sizes),
        checks_(std::move(checks)),
        stream_(std::move(stream)),
        keep_(keep) {}

  [[nodiscard]] std::uint64_t pass() const noexcept { return pass_; }

  /// Reads on until there is a sample of that number; false: the stream ends before it.
  bool reach(std::int64_t number) {
    if (size() > number) return true;
    const std::lock_guard reading(reading_);
    while (size() <= number && stream_ != nullptr) read_next();
    if (size() > number) return true;
    if (failure_) std::rethrow_exception(failure_);
    return false;
  }
  /// How many samples come before that number; at most that many are read.
  std::int64_t advance_to(std::int64_t number) {
    if (number > 0) reach(number - 1);
    return std::min(number, size());
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
    unread_ = 0;
    return true;
  }
  /// Keeps at least this many from now on.
  void keep(std::size_t samples) {
    const std::lock_guard lock(mutex_);
    keep_ = std::max(keep_, samples);
  }

 private:
  /// Those that may still be wanted for a batch stay, but an end is set to them: a run that is
  /// resumed goes through a shuffle without reading.
  [[nodiscard]] bool drops_one() const noexcept {
    return kept_.size() >= keep_ && (kept_.size() - keep_ >= unread_ || kept_.size() / 16 >= keep_);
  }
  void read_next() {
    std::vector<float> values;
    std::size_t keep = 0;
    {
      const std::lock_guard lock(mutex_);
      keep = keep_;
      for (; drops_one(); kept_.pop_front()) values = std::move(kept_.front());
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
      const bool has_sample = stream_->next(sample);
      if (!(has_sample ? checks_->same_sample(end_, values) : checks_->same_end(end_)))
        throw DataError(concat(
            {"from_stream: the stream was opened again for samples that are kept no more, and ",
             has_sample ? "sample " : "its end, after samples: ", end_,
             " differs from before; make .keep larger: it was ", sizes_.keep,
             ", and must be at least ", std::max(keep, 2 * sizes_.keep),
             " here (several times shuffle's buffer plus batch x (2 + prefetch)); or let open() "
             "give the same samples each time for a key"}));
      if (!has_sample) return stream_.reset();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      stream_.reset();
      throw;
    }
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(values));
    ++unread_;
    ++end_;
  }

  const std::uint64_t pass_;
  const StreamSizes sizes_;
  const std::shared_ptr<StreamChecks> checks_;
  std::mutex reading_;                  ///< for stream_; before mutex_, which is for what follows
  std::unique_ptr<OpenStream> stream_;  ///< null: it has ended
  std::mutex mutex_;
  std::size_t keep_;
  std::size_t unread_ = 0;               ///< samples that came after the last one was copied
  std::deque<std::vector<float>> kept_;  ///< the newest samples
  std::int64_t end_ = 0;                 ///< samples that it has given; changed under both
  std::exception_ptr failure_;           ///< changed under both
};

class StreamRuns {
  static constexpr std::size_t remembered = 4096;  ///< passes, at least

 public:
  StreamRuns(OpensStream open, const StreamSizes& sizes)
      : open_(std::move(open)), sizes_(sizes), keep_(std::max<std::size_t>(sizes.keep, 1)) {}

  /// The run of a pass that other copies have begun, if it has all of its samples, or a new one.
  std::shared_ptr<StreamRun> begin(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    if (passes_.size() > remembered)
      std::erase_if(passes_, [](const auto& each) { return each.second.run.expired(); });
    PassState& state = passes_[pass];
    auto run = state.run.lock();
    if (run != nullptr && run->has_all()) return run;
    if (run == nullptr) state.checks = std::make_shared<StreamChecks>();
    state.run = run = opened(pass, state);
    return run;
  }
  /// The run of a pass; null if there is none.
  std::shared_ptr<StreamRun> find(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    const auto found = passes_.find(pass);
    return found == passes_.end() ? nullptr : found->second.run.lock();
  }
  /// One more of a pass; none of a pass of long ago.
  std::shared_ptr<StreamRun> again(std::uint64_t pass) {
    const std::lock_guard lock(mutex_);
    const auto found = passes_.find(pass);
    return found == passes_.end() ? nullptr : opened(pass, found->second);
  }
  [[nodiscard]] std::size_t keep() const noexcept { return keep_; }
  /// A sample was requested after this many newer ones: keeps twice as many from now on.
  void requested_after(std::int64_t newer) {
    const std::size_t wanted = 2 * static_cast<std::size_t>(std::max<std::int64_t>(newer, 0));
    if (wanted <= keep_) return;
    const std::lock_guard lock(mutex_);
    keep_ = std::max<std::size_t>(keep_, wanted);
    for (const auto& [pass, state] : passes_)
      if (const auto run = state.run.lock()) run->keep(keep_);
  }

 private:
  struct PassState {
    std::weak_ptr<StreamRun> run;
    std::shared_ptr<StreamChecks> checks;
  };

  std::shared_ptr<StreamRun> opened(std::uint64_t pass, const PassState& state) {
    return std::make_shared<StreamRun>(pass, sizes_, keep_, state.checks, open_(RandomKey(pass)));
  }

  OpensStream open_;
  const StreamSizes sizes_;
  std::mutex mutex_;
  std::atomic<std::size_t> keep_;  ///< changed under the mutex
  std::unordered_map<std::uint64_t, PassState> passes_;
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
  std::size_t newer = 0;
  for (auto run = passes_.rbegin(); run != passes_.rend(); ++run) {
    if (newer >= runs_->keep()) {
      passes_.erase(passes_.begin(), run.base());
      break;
    }
    newer += static_cast<std::size_t>((*run)->size());
  }
  again_.reset();
  position_ = 0;
  const std::uint64_t key = RandomKey(pass.seed).fold_in(pass.path.value()).value();
  auto begun = runs_->begin(key);  // (looks at one that this copy has)
  std::erase_if(passes_, [&](const auto& run) { return run->pass() == key; });
  passes_.push_back(std::move(begun));
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
  std::int64_t newer = -number;
  for (auto run = passes_.rbegin(); run != passes_.rend(); ++run) {
    newer += (*run)->size();
    if ((*run)->pass() != pass) continue;
    runs_->requested_after(newer);
    if (has(run->get())) return;
    break;
  }
  if (has(again_.get())) return;
  if (has(runs_->find(pass).get())) return;  // (a copy that another stage reads by)
  runs_->requested_after(newer);
  again_ = runs_->again(pass);
  if (!has(again_.get()))
    throw DataError(concat({"from_stream: ", sample_name(number),
                            " is kept no more, and cannot be read again; make .keep larger (it is ",
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
