// NumPy's arrays as they lie in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/datasets/mapped_file.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// An array in a .npy or .npz file. The system reads only the rows that are asked for, so the array
/// may be larger than the memory. (An array in Fortran's order has its rows spread over the file:
/// reading one may read all.) Elements of '|b1', '|u1', '|i1', '<u2', '<i2', '<f2', '<u4', '<i4',
/// '<f4', '<u8', '<i8' and '<f8' become float or double. Copies share the file; any number of
/// threads may read it. The file must not become shorter meanwhile.
/// Use: `NpyArray("data.npz", "x")`. Keras: `numpy.load(path, mmap_mode="r")`.
class NpyArray {
 public:
  /// The array in a .npy file, in either order. Throws DataError, naming the file, when it cannot
  /// be read, is damaged, or has elements of another type.
  explicit NpyArray(const std::string& path);
  /// The array `name` in an .npz file of numpy.savez below 4 GiB. Throws DataError as above, for a
  /// name that is not there, and for arrays that numpy.savez_compressed has written.
  NpyArray(const std::string& path, const std::string& name);

  /// The first extent.
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// The other extents; () for one number a row.
  [[nodiscard]] const std::vector<std::size_t>& sample_shape() const noexcept {
    return sample_shape_;
  }
  [[nodiscard]] std::size_t sample_size() const noexcept { return sample_size_; }
  /// Writes rows indices[i] to row i of the view.
  void read(std::span<const std::int64_t> indices, TensorView<float> to) const;
  void read(std::span<const std::int64_t> indices, TensorView<double> to) const;

 private:
  void parse(std::string caller, std::span<const std::byte> npy);
  template <class T>
  void read_rows(std::span<const std::int64_t> indices, TensorView<T> to) const;

  std::shared_ptr<const detail::MappedFile> file_;
  std::span<const std::byte> elements_;
  std::string type_;
  std::size_t rows_ = 0;
  std::vector<std::size_t> sample_shape_;
  std::size_t sample_size_ = 1;
  /// From a row to the next, and of each extent of a sample, in elements: how the file has them.
  std::size_t row_stride_ = 0;
  std::vector<std::size_t> strides_;
};

/// Sample i is row i of x, its target row i of y.
class NpySource {
 public:
  /// Throws DataError when the numbers of rows differ.
  explicit NpySource(NpyArray x, std::optional<NpyArray> y = {});

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(x_.rows()); }
  [[nodiscard]] std::size_t sample_size() const noexcept { return x_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const noexcept { return y_ ? y_->sample_size() : 0; }
  [[nodiscard]] const std::vector<std::size_t>& sample_shape() const noexcept {
    return x_.sample_shape();
  }
  void describe(PipelineDescription& description) const;
  void read(std::span<const std::int64_t> indices, TensorView<float> x, TensorView<float> y) const;
  void read(std::span<const std::int64_t> indices, TensorView<double> x,
            TensorView<double> y) const;

 private:
  NpyArray x_;
  std::optional<NpyArray> y_;
};

/// A pipeline of the rows of .npy files: samples, and targets where they are given. For the arrays
/// of an .npz file: `from_npy(NpyArray("data.npz", "x"), NpyArray("data.npz", "y"))`. For a file of
/// each worker, let the function of from_files return an NpySource.
/// Use: `from_npy("x.npy", "y.npy")`. Keras: none.
template <class Made = NpySource>
[[nodiscard]] auto from_npy(NpyArray x, std::optional<NpyArray> y = {}) {
  return from_source(Made(std::move(x), std::move(y)));
}
template <class Made = NpySource>
[[nodiscard]] auto from_npy(const std::string& x, const std::string& y) {
  return from_source(Made(NpyArray(x), NpyArray(y)));
}
template <class Made = NpySource>
[[nodiscard]] auto from_npy(const std::string& x) {
  return from_source(Made(NpyArray(x)));
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/npy.ipp"
#endif
