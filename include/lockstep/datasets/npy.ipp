#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/npy_header.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/zip.hpp"
#include "lockstep/datasets/npy.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

static_assert(std::endian::native == std::endian::little,
              "lockstep: .npy files are read on little-endian machines");

/// Half a float, as it is stored.
struct NpyHalf {
  std::uint16_t bits;
};

/// Calls use(U()) for the type U of a name of NumPy's; false for other names.
template <class Use>
bool with_npy_type(std::string_view name, Use use) {
  if (name.size() == 3 && (name[0] == '<' || name[0] == '|' || name[0] == '='))
    name.remove_prefix(1);
  const auto is = [&](std::string_view type, auto value) {
    if (name != type) return false;
    use(value);
    return true;
  };
  return is("b1", std::uint8_t{}) || is("u1", std::uint8_t{}) || is("i1", std::int8_t{}) ||
         is("u2", std::uint16_t{}) || is("i2", std::int16_t{}) || is("f2", NpyHalf{}) ||
         is("u4", std::uint32_t{}) || is("i4", std::int32_t{}) || is("f4", float{}) ||
         is("u8", std::uint64_t{}) || is("i8", std::int64_t{}) || is("f8", double{});
}

/// An element that may lie anywhere.
template <class T, class U>
T load_element(const std::byte* from) noexcept {
  U value{};
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::is_same_v<U, NpyHalf>)
    return static_cast<T>(Float16::decode(value.bits));
  else
    return static_cast<T>(value);
}

}  // namespace detail

LOCKSTEP_INLINE NpyArray::NpyArray(const std::string& path)
    : file_(std::make_shared<const detail::MappedFile>("npy", path)) {
  parse(concat({"npy: ", path}), file_->bytes());
}

LOCKSTEP_INLINE NpyArray::NpyArray(const std::string& path, const std::string& name)
    : file_(std::make_shared<const detail::MappedFile>("npz", path)) {
  const std::string caller = concat({"npz: ", path});
  std::string others;
  for (const detail::ZipEntry& entry : detail::read_zip_directory(file_->bytes())) {
    if (entry.name == name + ".npy") {
      if (entry.deflated)
        throw DataError(concat({caller, ": array ", in_quotes(name),
                                " is compressed and cannot be read in parts; write it with "
                                "numpy.savez, or as a .npy file"}));
      parse(concat({caller, ": array ", in_quotes(name)}), entry.data);
      return;
    }
    others += concat({others.empty() ? "" : ", ", entry.name});
  }
  throw DataError(concat({caller, ": there is no array ", in_quotes(name), ", but: ", others}));
}

LOCKSTEP_INLINE void NpyArray::parse(std::string caller, std::span<const std::byte> npy) {
  const detail::NpyHeader header(caller, npy);
  const auto refuse = [&](std::string_view why) { throw DataError(concat({caller, ": ", why})); };
  std::size_t element = 0;
  if (!detail::with_npy_type(header.descr(), [&](auto value) { element = sizeof value; }))
    refuse(
        concat({"expected elements of type '|b1', '|u1', '|i1', '<u2', '<i2', '<f2', '<u4', '<i4', "
                "'<f4', '<u8', '<i8' or '<f8', got ",
                detail::npy_type_text(header.descr())}));
  const std::vector<std::uint64_t>& shape = header.shape();
  if (shape.empty())
    refuse("the array is a single number; expected at least one extent, that of the rows");
  elements_ = npy.subspan(header.size());
  std::uint64_t size = element;
  bool too_large = false;
  for (const std::uint64_t extent : shape) {
    too_large =
        too_large || (extent != 0 && size > std::numeric_limits<std::uint64_t>::max() / extent);
    size *= extent;
  }
  if (too_large || size != elements_.size())
    refuse(concat({"the shape ", shape_text(shape), " cannot have ", elements_.size(), " bytes"}));
  type_ = header.descr();
  rows_ = static_cast<std::size_t>(shape.front());
  for (std::size_t i = 1; i < shape.size(); ++i)
    sample_shape_.push_back(static_cast<std::size_t>(shape[i]));
  strides_.resize(sample_shape_.size());
  std::size_t stride = 1;
  if (header.fortran_order()) {
    row_stride_ = std::exchange(stride, rows_);
    for (std::size_t i = 0; i < strides_.size(); ++i)
      strides_[i] = std::exchange(stride, stride * sample_shape_[i]);
  } else {
    for (std::size_t i = strides_.size(); i > 0; --i)
      strides_[i - 1] = std::exchange(stride, stride * sample_shape_[i - 1]);
    row_stride_ = stride;
  }
  for (const std::size_t extent : sample_shape_) sample_size_ *= extent;
}

template <class T>
void NpyArray::read_rows(std::span<const std::int64_t> indices, TensorView<T> to) const {
  constexpr std::size_t tile = batch_multiple;
  detail::with_npy_type(type_, [&](auto element) {
    using U = decltype(element);
    std::array<const std::byte*, tile> rows{};
    std::vector<std::size_t> index(sample_shape_.size());
    for (std::size_t first = 0; first < indices.size(); first += tile) {
      const std::size_t filled = std::min(tile, indices.size() - first);
      for (std::size_t s = 0; s < filled; ++s)
        rows[s] = elements_.data() +
                  static_cast<std::size_t>(indices[first + s]) * row_stride_ * sizeof(U);
      for (std::size_t f = 0, at = 0; f < sample_size_; ++f) {
        for (std::size_t s = 0; s < filled; ++s)
          to(first + s, f) = detail::load_element<T, U>(rows[s] + at * sizeof(U));
        // To the next element, the last extent first.
        for (std::size_t d = index.size(); d > 0; --d) {
          at += strides_[d - 1];
          if (++index[d - 1] < sample_shape_[d - 1]) break;
          at -= strides_[d - 1] * std::exchange(index[d - 1], 0);
        }
      }
    }
  });
}

LOCKSTEP_INLINE void NpyArray::read(std::span<const std::int64_t> indices,
                                    TensorView<float> to) const {
  read_rows(indices, to);
}
LOCKSTEP_INLINE void NpyArray::read(std::span<const std::int64_t> indices,
                                    TensorView<double> to) const {
  read_rows(indices, to);
}

LOCKSTEP_INLINE NpySource::NpySource(NpyArray x, std::optional<NpyArray> y)
    : x_(std::move(x)), y_(std::move(y)) {
  if (y_ && y_->rows() != x_.rows())
    throw DataError(concat({"from_npy: every sample needs one target, got ", x_.rows(),
                            " samples and ", y_->rows(), " targets"}));
}

LOCKSTEP_INLINE void NpySource::describe(PipelineDescription& description) const {
  description.add({"from_npy"});
}

LOCKSTEP_INLINE void NpySource::read(std::span<const std::int64_t> indices, TensorView<float> x,
                                     TensorView<float> y) const {
  x_.read(indices, x);
  if (y_ && !y.empty()) y_->read(indices, y);
}
LOCKSTEP_INLINE void NpySource::read(std::span<const std::int64_t> indices, TensorView<double> x,
                                     TensorView<double> y) const {
  x_.read(indices, x);
  if (y_ && !y.empty()) y_->read(indices, y);
}

}}  // namespace lockstep
