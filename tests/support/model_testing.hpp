// What the tests of models share: layers as a user would write them, small data, a recording
// callback.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/tensor_matrix.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/sequential.hpp"
#include "support/messages.hpp"

namespace lockstep_test {

inline double uniform_half(lockstep::RandomStream& random, lockstep::Fans) {
  return random.uniform(-0.5, 0.5);
}

/// A user's own fully connected layer, with Eigen and without any of the optional hooks. (The work
/// is in functions that do not depend on sizes: they are compiled once for all models.)
template <std::size_t Units>
struct UserDense {
  static constexpr std::string_view name = "user_dense";
  template <class In>
  using Output = lockstep::Shape<Units>;
  template <class In>
  static constexpr std::array variables{
      lockstep::Variable{"kernel", {In::size, Units}, uniform_half},
      lockstep::Variable{"bias", {Units}, nullptr}};

  template <class In, class T>
  static void forward(const lockstep::ForwardPass<T>& pass);
  template <class In, class T>
  static void backward(const lockstep::BackwardPass<T>& pass);
};

/// [rows x columns] in row-major order as an Eigen matrix.
template <class T>
auto as_matrix(std::span<T> values, std::size_t columns) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<Matrix>(values.data(), static_cast<Eigen::Index>(values.size() / columns),
                            static_cast<Eigen::Index>(columns));
}

template <class T>
void dense_forward(const lockstep::ForwardPass<T>& pass) {
  const auto kernel = as_matrix(pass.weights[0], pass.y.features());
  for (Eigen::Index unit = 0; unit < kernel.cols(); ++unit) {
    auto y = pass.y.matrix().col(unit);
    y.setConstant(pass.weights[1][static_cast<std::size_t>(unit)]);
    for (Eigen::Index input = 0; input < kernel.rows(); ++input)
      y += kernel(input, unit) * pass.x.matrix().col(input);
  }
}

template <class T>
void dense_backward(const lockstep::BackwardPass<T>& pass) {
  const auto kernel = as_matrix(pass.weights[0], pass.dy.features());
  auto gradient = as_matrix(pass.gradients[0], pass.dy.features());
  pass.dx.matrix().setZero();
  for (Eigen::Index unit = 0; unit < kernel.cols(); ++unit) {
    const auto dy = pass.dy.matrix().col(unit);
    pass.gradients[1][static_cast<std::size_t>(unit)] = dy.sum();
    for (Eigen::Index input = 0; input < kernel.rows(); ++input) {
      gradient(input, unit) = pass.x.matrix().col(input).dot(dy);
      pass.dx.matrix().col(input) += kernel(input, unit) * dy;
    }
  }
}

template <std::size_t Units>
template <class In, class T>
void UserDense<Units>::forward(const lockstep::ForwardPass<T>& pass) {
  dense_forward(pass);
}
template <std::size_t Units>
template <class In, class T>
void UserDense<Units>::backward(const lockstep::BackwardPass<T>& pass) {
  dense_backward(pass);
}

/// A user's own activation that does not care what it leaves in the padding.
struct UserReLU {
  static constexpr std::string_view name = "user_re_lu";
  static constexpr std::string_view class_name = "UserReLU";
  template <class In>
  using Output = In;
  template <class In, class T>
  static void forward(const lockstep::ForwardPass<T>& pass) {
    pass.y.matrix() = pass.x.matrix().cwiseMax(T(0));
    fill_padding(pass.y);
  }
  template <class In, class T>
  static void backward(const lockstep::BackwardPass<T>& pass) {
    pass.dx.matrix() = (pass.y.matrix().array() > T(0)).select(pass.dy.matrix(), T(0));
    fill_padding(pass.dx);
  }

 private:
  template <class T>
  static void fill_padding(lockstep::TensorView<T> view) {
    for (std::size_t f = 0; f < view.features(); ++f)
      for (std::size_t i = view.samples(); i < view.stride(); ++i)
        view.feature(f)[i] = std::numeric_limits<T>::quiet_NaN();
  }
};

/// A user's own layer without work: the input, seen with another shape.
template <std::size_t... Extents>
struct UserReshape {
  static constexpr std::string_view name = "user_reshape";
  static constexpr bool aliases_input = true;
  template <class In>
  using Output = lockstep::Shape<Extents...>;
};

using TinyNet = lockstep::Sequential<lockstep::Input<4>, UserDense<6>, UserReLU, UserDense<3>>;

/// Samples of 4 numbers and their classes 0 .. 2, which a TinyNet can learn.
struct TinyData {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x;
  std::vector<int> y;

  explicit TinyData(int samples, std::uint64_t seed = 1)
      : x(samples, 4), y(static_cast<std::size_t>(samples)) {
    lockstep::RandomStream random{lockstep::RandomKey(seed)};
    for (int i = 0; i < samples; ++i) {
      for (int f = 0; f < 4; ++f) x(i, f) = static_cast<float>(random.uniform(-1, 1));
      y[static_cast<std::size_t>(i)] = (x(i, 0) > 0 ? 1 : 0) + (x(i, 1) + x(i, 2) > 0 ? 1 : 0);
    }
  }
};

/// A dataset written by hand to the concept: the rows of a TinyData in batches, in order. Its
/// length can be hidden, or be without end, and reading a sample can fail. What it leaves in the
/// padding is NaN.
class RowDataset {
 public:
  std::int64_t reported_cardinality;  ///< of one pass
  std::int64_t bad_sample = -1;       ///< reading this one throws DataError

  RowDataset(TinyData data, std::size_t batch) : data_(std::move(data)), batch_(batch) {
    reported_cardinality = batches();
  }

  [[nodiscard]] std::size_t sample_size() const { return 4; }
  [[nodiscard]] std::size_t target_size() const { return 1; }
  [[nodiscard]] std::int64_t cardinality() const { return reported_cardinality; }
  void begin(lockstep::Iteration) { seek(0); }
  std::size_t next() {
    indices_.clear();
    if (reported_cardinality != lockstep::infinite_cardinality && position_ >= batches()) return 0;
    const std::size_t first = static_cast<std::size_t>(position_ % batches()) * batch_;
    for (std::size_t i = first; i < std::min(first + batch_, data_.y.size()); ++i)
      indices_.push_back(static_cast<std::int64_t>(i));
    ++position_;
    return indices_.size();
  }
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const { return indices_; }
  template <class T>
  void read(std::span<const std::size_t> positions, lockstep::TensorView<T> x,
            lockstep::TensorView<T> y) {
    fill(x);
    fill(y);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const std::int64_t index = indices_[positions[row]];
      if (index == bad_sample)
        throw lockstep::DataError("sample " + std::to_string(index) + " is damaged");
      for (std::size_t f = 0; f < 4; ++f)
        x(row, f) = static_cast<T>(data_.x(index, static_cast<Eigen::Index>(f)));
      if (!y.empty()) y(row, 0) = static_cast<T>(data_.y[static_cast<std::size_t>(index)]);
    }
  }
  [[nodiscard]] std::int64_t position() const { return position_; }
  void seek(std::int64_t position) {
    position_ = position;
    indices_.clear();
  }

 private:
  [[nodiscard]] std::int64_t batches() const {
    return static_cast<std::int64_t>((data_.y.size() + batch_ - 1) / batch_);
  }
  template <class T>
  static void fill(lockstep::TensorView<T> view) {
    std::fill_n(view.data(), view.features() * view.stride(), std::numeric_limits<T>::quiet_NaN());
  }

  TinyData data_;
  std::size_t batch_;
  std::int64_t position_ = 0;
  std::vector<std::int64_t> indices_;
};

/// Writes down every hook with its arguments, and calls a function of the test's where there is
/// one.
struct Recorder {
  std::vector<std::string> calls;
  std::vector<lockstep::Logs> batch_logs;
  std::vector<lockstep::Logs> epoch_logs;
  bool record_completions = false;  ///< also on_..._complete

  using Training = lockstep::Training;
  using Logs = lockstep::Logs;
  std::function<void(Training&)> at_train_begin;
  std::function<void(Training&, int)> at_epoch_begin;
  std::function<void(Training&, std::int64_t)> at_batch_begin;
  std::function<void(Training&, std::int64_t, Logs&)> at_batch_end;
  std::function<void(Training&, std::int64_t)> at_batch_complete;
  std::function<void(Training&, int, Logs&)> at_epoch_end;
  std::function<void(Training&, int)> at_epoch_complete;
  std::function<void(Training&)> at_test_begin;
  std::function<void(Training&, Logs&)> at_test_end;
  std::function<void(Training&, Logs&)> at_train_end;
  std::function<void(Training&, std::int64_t)> at_test_batch_end;
  std::function<void(lockstep::State&)> at_save;
  std::function<void(const lockstep::State&)> at_restore;

  void on_train_begin(Training& training) { record("train_begin", at_train_begin, training); }
  void on_train_end(Training& training, Logs& logs) {
    note("train_end" + std::string(logs.empty() ? " without logs" : ""));
    if (at_train_end) at_train_end(training, logs);
  }
  void on_epoch_begin(Training& training, int epoch) {
    record("epoch_begin", at_epoch_begin, training, epoch);
  }
  void on_epoch_end(Training& training, int epoch, Logs& logs) {
    record("epoch_end", at_epoch_end, training, epoch, logs);
    epoch_logs.push_back(logs);
  }
  void on_epoch_complete(Training& training, int epoch) {
    if (record_completions) record("epoch_complete", at_epoch_complete, training, epoch);
  }
  void on_train_batch_begin(Training& training, std::int64_t batch) {
    record("batch_begin", at_batch_begin, training, batch);
  }
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs) {
    record("batch_end", at_batch_end, training, batch, logs);
    batch_logs.push_back(logs);
  }
  void on_train_batch_complete(Training& training, std::int64_t batch) {
    if (record_completions) record("batch_complete", at_batch_complete, training, batch);
  }
  void on_test_begin(Training& training) { record("test_begin", at_test_begin, training); }
  void on_test_end(Training& training, Logs& logs) {
    record("test_end", at_test_end, training, logs);
  }
  void on_test_batch_begin(Training&, std::int64_t batch) {
    note("test_batch_begin " + std::to_string(batch));
  }
  void on_test_batch_end(Training& training, std::int64_t batch, Logs&) {
    record("test_batch_end", at_test_batch_end, training, batch);
  }
  void on_predict_begin(Training&) { note("predict_begin"); }
  void on_predict_end(Training&) { note("predict_end"); }
  void on_predict_batch_begin(Training&, std::int64_t batch) {
    note("predict_batch_begin" + text_of(batch));
  }
  void on_predict_batch_end(Training&, std::int64_t batch) {
    note("predict_batch_end" + text_of(batch));
  }

  void save(lockstep::State& state) const {
    if (at_save) at_save(state);
  }
  void restore(const lockstep::State& state) {
    if (at_restore) at_restore(state);
  }

  /// How many calls start with `text`.
  [[nodiscard]] std::int64_t count(std::string_view text) const {
    std::int64_t found = 0;
    for (const std::string& call : calls) found += call.starts_with(text) ? 1 : 0;
    return found;
  }

 private:
  void note(std::string call) { calls.push_back(std::move(call)); }
  static std::string text_of(std::int64_t number) { return " " + std::to_string(number); }
  static std::string text_of(const Logs&) { return {}; }
  template <class F, class... Arguments>
  void record(const std::string& call, const F& f, Training& training, Arguments&&... arguments) {
    note((call + ... + text_of(arguments)));
    if (f) f(training, arguments...);
  }
};

}  // namespace lockstep_test
