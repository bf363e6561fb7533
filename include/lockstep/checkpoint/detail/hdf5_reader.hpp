// Keras's .weights.h5 files, read with HDF5's library.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_HDF5)

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/detail/hdf5_objects.hpp"
#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/widen.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/utf8.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// zlib makes at most 1032 bytes of one.
inline constexpr std::uint64_t most_hdf5_expansion = 1100;

inline float decode_bfloat16(std::uint16_t bits) noexcept { return Bfloat16::decode(bits); }

class KerasWeightsReader {
 public:
  /// `most`: bytes that are read at most, of all arrays.
  explicit KerasWeightsReader(std::uint64_t most) : most_(most), left_(most) {}

  /// Of an optimizer with more than `variables` ones, or others than numbers, their count alone.
  void read(const Hdf5Object& file, std::size_t variables) {
    if (H5Aexists(file.id(), "layer_names") > 0)
      refuse_hdf5({},
                  "it is of Keras 2: load it there with tf.keras and save it with Keras 3, as "
                  ".weights.h5");
    read_layers(file);
    read_optimizer(file, variables);
  }
  [[nodiscard]] KerasWeights take() { return std::move(found_); }

 private:
  // A group may contain itself; Keras's never do.
  static constexpr int deepest = 48;
  static constexpr std::uint64_t most_objects = std::uint64_t{1} << 18;

  /// Beside the layers, a compiled model has its optimizer and its metrics.
  void read_layers(const Hdf5Object& file) {
    for (const char* const layers : {"layers", "_layer_checkpoint_dependencies"})
      if (H5Lexists(file.id(), layers, H5P_DEFAULT) > 0) return read_link(file, layers, "", 0);
    read_group(file, "", 0);
  }

  void read_optimizer(const Hdf5Object& file, std::size_t most) {
    if (H5Lexists(file.id(), "optimizer", H5P_DEFAULT) <= 0) return;
    const std::string path = "optimizer/vars";
    const Hdf5Object owner = open_object(file, "optimizer", "optimizer");
    if (H5Iget_type(owner.id()) != H5I_GROUP || H5Lexists(owner.id(), "vars", H5P_DEFAULT) <= 0)
      return;
    const Hdf5Object group = open_object(owner, "vars", path);
    H5G_info_t info{};
    hdf5_checked(H5Gget_info(group.id(), &info), path);
    if (info.nlinks == 0) return;
    KerasOptimizer& optimizer = found_.optimizer.emplace();
    optimizer.name = name_of(group, path);
    optimizer.count = static_cast<std::size_t>(info.nlinks);
    for (std::size_t i = 0; i < optimizer.count && optimizer.count <= most; ++i) {
      const std::string number = std::to_string(i), place = path + "/" + number;
      if (H5Lexists(group.id(), number.c_str(), H5P_DEFAULT) <= 0)
        return optimizer.variables.clear();
      const Hdf5Object dataset = open_object(group, number.c_str(), place);
      std::optional<SavedArray> array;
      if (H5Iget_type(dataset.id()) == H5I_DATASET) array = read_array(dataset, place, true);
      if (!array) return optimizer.variables.clear();
      array->name = place;
      optimizer.variables.push_back(std::move(*array));
    }
    if (optimizer.variables.empty()) return;
    const SavedArray steps = std::move(optimizer.variables.front());
    optimizer.variables.erase(optimizer.variables.begin());
    double number = -1;
    if (steps.bytes.size() == sizeof(double))
      std::memcpy(&number, steps.bytes.data(), sizeof(double));
    if (!(number >= 0 && number < 9e15))
      refuse_hdf5(path + "/0", "expected the number of steps, a whole number of 64 bits");
    optimizer.iterations = static_cast<std::int64_t>(number);
  }

  /// What Keras calls the object of a group; empty when it does not tell.
  static std::string name_of(const Hdf5Object& group, const std::string& path) {
    if (H5Aexists(group.id(), "name") <= 0) return {};
    const Hdf5Object attribute(H5Aopen(group.id(), "name", H5P_DEFAULT), H5Aclose, path);
    const Hdf5Object type(H5Aget_type(attribute.id()), H5Tclose, path);
    const Hdf5Object space(H5Aget_space(attribute.id()), H5Sclose, path);
    if (H5Tis_variable_str(type.id()) <= 0 || H5Sget_simple_extent_npoints(space.id()) != 1)
      return {};
    char* text = nullptr;
    hdf5_checked(H5Aread(attribute.id(), type.id(), &text), path);
    std::string name = text == nullptr ? "" : printable(text, 80);
    H5free_memory(text);
    return name;
  }

  void read_group(const Hdf5Object& group, const std::string& path, int depth) {
    H5G_info_t info{};
    hdf5_checked(H5Gget_info(group.id(), &info), path);
    if (depth > deepest || info.nlinks > most_objects - objects_)
      refuse_hdf5(path, "there are more groups than a model can have");
    objects_ += info.nlinks;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      std::array<char, 512> name{};
      const ssize_t size =
          hdf5_checked(H5Lget_name_by_idx(group.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                          name.data(), name.size(), H5P_DEFAULT),
                       path);
      if (static_cast<std::size_t>(size) >= name.size() || !is_utf8(name.data()))
        refuse_hdf5(path, "it has a name of more than 511 bytes, or that is no UTF-8");
      if (depth > 0 || (std::string_view(name.data()) != "optimizer" &&
                        std::string_view(name.data()) != "metrics"))
        read_link(group, name.data(), path, depth);
    }
  }

  void read_link(const Hdf5Object& group, const char* name, const std::string& parent, int depth) {
    const std::string path = parent.empty() ? name : parent + "/" + name;
    const Hdf5Object object = open_object(group, name, path);
    const H5I_type_t kind = H5Iget_type(object.id());
    if (kind == H5I_GROUP) read_group(object, path, depth + 1);
    if (kind == H5I_DATASET) read_dataset(object, path);
  }

  static Hdf5Object open_object(const Hdf5Object& group, const char* name,
                                const std::string& path) {
    H5L_info_t link{};
    hdf5_checked(H5Lget_info(group.id(), name, &link, H5P_DEFAULT), path);
    if (link.type != H5L_TYPE_HARD)
      refuse_hdf5(path, "it is a link to another place, which is not followed");
    return Hdf5Object(H5Oopen(group.id(), name, H5P_DEFAULT), H5Oclose, path);
  }

  void read_dataset(const Hdf5Object& dataset, const std::string& path) {
    std::optional<SavedArray> array = read_array(dataset, path, false);
    if (!array) return;  // seeds and counts
    if (!names_.insert(array->name).second)
      refuse_hdf5(path, concat({"there are two arrays at '", array->name, "'"}));
    found_.arrays.push_back(std::move(*array));
  }

  /// Nothing for other things than numbers with a point; `whole_numbers`: these become float64.
  std::optional<SavedArray> read_array(const Hdf5Object& dataset, const std::string& path,
                                       bool whole_numbers) {
    const Hdf5Object type(H5Dget_type(dataset.id()), H5Tclose, path);
    const H5T_class_t kind = H5Tget_class(type.id());
    const std::size_t file_element = H5Tget_size(type.id());
    // NumPy has no such type; h5py calls it opaque.
    const bool is_bfloat16 =
        kind == H5T_OPAQUE && file_element == 2 && H5Aexists(dataset.id(), "dtype") > 0;
    const bool is_whole = kind == H5T_INTEGER;
    if (kind != H5T_FLOAT && !is_bfloat16 && !(is_whole && whole_numbers)) return std::nullopt;
    const std::size_t element =
        is_whole || file_element > sizeof(float) ? sizeof(double) : sizeof(float);
    SavedArray array{.name = keras_place(path),
                     .scalar = element == 4 ? scalar_name<float>() : scalar_name<double>(),
                     .extents = extents_of(dataset, path)};
    const std::optional<std::uint64_t> size = array_size(array.extents, element);
    if (!size || *size > left_)
      refuse_hdf5(path, concat({"it is ", shape_text(array.extents), " of ", array.scalar,
                                ", and of all arrays at most ", most_, " bytes are read"}));
    left_ -= *size;
    check_storage(dataset, path, array.extents, file_element);
    std::vector<std::byte> bytes(static_cast<std::size_t>(is_bfloat16 ? *size / 2 : *size));
    if (!bytes.empty())
      hdf5_checked(H5Dread(dataset.id(),
                           is_bfloat16    ? type.id()
                           : element == 4 ? H5T_IEEE_F32LE
                                          : H5T_IEEE_F64LE,
                           H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
                   path);
    array.bytes = is_bfloat16 ? widen(bytes, &decode_bfloat16) : std::move(bytes);
    return array;
  }

  static std::vector<std::uint64_t> extents_of(const Hdf5Object& dataset, const std::string& path) {
    const Hdf5Object space(H5Dget_space(dataset.id()), H5Sclose, path);
    if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) refuse_hdf5(path, "it has no elements");
    std::vector<hsize_t> extents(
        static_cast<std::size_t>(hdf5_checked(H5Sget_simple_extent_ndims(space.id()), path)));
    hdf5_checked(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), path);
    return {extents.begin(), extents.end()};
  }

  /// Throws DataError unless the elements are in the file.
  void check_storage(const Hdf5Object& dataset, const std::string& path,
                     const std::vector<std::uint64_t>& extents, std::size_t element) const {
    const Hdf5Object how(H5Dget_create_plist(dataset.id()), H5Pclose, path);
    const H5D_layout_t layout = H5Pget_layout(how.id());
    if (layout == H5D_VIRTUAL || H5Pget_external_count(how.id()) > 0)
      refuse_hdf5(path, "its elements are in other files, which are not read");
    std::uint64_t needed = array_size(extents, element).value_or(0);
    if (layout == H5D_CHUNKED) {
      std::vector<hsize_t> chunk(extents.size());
      hdf5_checked(H5Pget_chunk(how.id(), static_cast<int>(chunk.size()), chunk.data()), path);
      if (array_size(std::vector<std::uint64_t>(chunk.begin(), chunk.end()), element)
              .value_or(std::numeric_limits<std::uint64_t>::max()) > most_)
        refuse_hdf5(path, concat({"its parts have more than ", most_, " bytes each"}));
      needed /= most_hdf5_expansion;
    }
    const std::uint64_t stored = H5Dget_storage_size(dataset.id());
    if (stored < needed)
      refuse_hdf5(path, concat({"it is ", shape_text(extents), ", and the file has only ", stored,
                                " bytes of it"}));
  }

  std::uint64_t most_, left_;
  std::uint64_t objects_ = 0;
  std::set<std::string> names_;
  KerasWeights found_;
};

/// See Hdf5Codec. float16 and bfloat16 become float32; whole numbers of layers are left out. Throws
/// DataError for a file that is incomplete or inconsistent, or refers to others. Verifies sizes
/// before memory is allocated.
inline KerasWeights decode_keras_weights(std::span<const std::byte> bytes, std::uint64_t most,
                                         std::size_t variables) {
  const Hdf5Session session;
  const Hdf5Object access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, {});
  put_into_memory(access);
  // The library makes a copy and leaves these bytes alone.
  hdf5_checked(H5Pset_file_image(access.id(), const_cast<std::byte*>(bytes.data()), bytes.size()),
               {});
  const Hdf5Object file(H5Fopen(hdf5_file_in_memory, H5F_ACC_RDONLY, access.id()), H5Fclose, {});
  KerasWeightsReader reader(std::min<std::uint64_t>(most, most_hdf5_expansion * bytes.size()));
  reader.read(file, variables);
  return reader.take();
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
