// Keras's HDF5 files: objects, compressed parts of arrays, reading and writing.
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
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/inflate.hpp"
#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The innermost reason of the call that has just failed, in HDF5's words.
inline std::string hdf5_reason() {
  std::array<char, 160> text{};
  const H5E_walk2_t keep_first = [](unsigned number, const H5E_error2_t* error, void* to) {
    if (number == 0 && error->desc != nullptr)
      std::strncpy(static_cast<char*>(to), error->desc, std::tuple_size_v<decltype(text)> - 1);
    return herr_t{0};
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, text.data());
  return printable(text.data(), text.size());
}

[[noreturn, gnu::cold]] inline void refuse_hdf5(std::string_view where, std::string_view why) {
  throw DataError(concat({"HDF5: ", where.empty() ? "the file" : printable(where, 80), ": ", why}));
}

/// What a call of HDF5 has returned, which is negative when it failed.
template <class Result>
Result hdf5_checked(Result result, std::string_view where) {
  if (result < 0) refuse_hdf5(where, concat({"the library cannot read it: ", hdf5_reason()}));
  return result;
}

/// Something of HDF5's that must be closed.
class Hdf5Object {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Object(hid_t id, Close close, std::string_view where)
      : id_(hdf5_checked(id, where)), close_(close) {}
  Hdf5Object(const Hdf5Object&) = delete;
  Hdf5Object& operator=(const Hdf5Object&) = delete;
  ~Hdf5Object() { close_(id_); }

  [[nodiscard]] hid_t id() const noexcept { return id_; }

 private:
  hid_t id_;
  Close close_;
};

/// The library is used by one thread at a time, and prints nothing.
class Hdf5Session {
 public:
  Hdf5Session() : lock_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;
  ~Hdf5Session() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// A file in memory. The name cannot be one of a file on the disk, which the library would open.
inline constexpr const char* hdf5_file_in_memory = "/dev/null/lockstep.weights.h5";

/// Says that the file is in memory; see there.
inline void put_into_memory(const Hdf5Object& access) {
  constexpr std::size_t increment = std::size_t{1} << 20;
  hdf5_checked(H5Pset_fapl_core(access.id(), increment, 0), {});
}

static_assert(H5_VERSION_GE(1, 10, 3), "lockstep: HDF5 1.10.3 or newer is needed");

/// In bytes.
struct Hdf5Sizes {
  std::uint64_t chunk;  ///< the most that all parts may have
  std::uint64_t file;
};

/// The filters of an array, in the order in which they were applied.
inline std::vector<ChunkFilter> hdf5_filters(const Hdf5Object& how, const std::string& path,
                                             std::size_t element) {
  std::vector<ChunkFilter> filters;
  const int count = hdf5_checked(H5Pget_nfilters(how.id()), path);
  for (int i = 0; i < count; ++i) {
    std::array<unsigned, 8> values{};
    std::size_t size = values.size();
    std::array<char, 80> name{};
    unsigned flags = 0, config = 0;
    const H5Z_filter_t filter =
        hdf5_checked(H5Pget_filter2(how.id(), static_cast<unsigned>(i), &flags, &size,
                                    values.data(), name.size() - 1, name.data(), &config),
                     path);
    const bool is_shuffle = filter == H5Z_FILTER_SHUFFLE && values[0] == element;
    const bool is_first_deflate =
        filter == H5Z_FILTER_DEFLATE &&
        std::find(filters.begin(), filters.end(), ChunkFilter::deflate) == filters.end();
    if (!is_shuffle && !is_first_deflate)
      refuse_hdf5(path,
                  concat({"it is stored with the filter ", in_quotes(name.data()), " (", filter,
                          "), of which gzip and shuffle are read: write the file without "
                          "(h5repack -f NONE, or create_dataset without compression)"}));
    filters.push_back(is_shuffle ? ChunkFilter::shuffle : ChunkFilter::deflate);
  }
  return filters;
}

/// Copies what a part that begins at `first` has of an array, row by row.
inline void place_hdf5_chunk(std::span<const std::byte> part, std::span<const hsize_t> chunk,
                             std::span<const hsize_t> first, std::span<const std::uint64_t> extents,
                             std::size_t element, std::span<std::byte> all) {
  const std::size_t last = extents.size() - 1;
  const std::size_t run =
      static_cast<std::size_t>(std::min(chunk[last], extents[last] - first[last])) * element;
  std::vector<hsize_t> row(last);  // within the part
  for (;;) {
    std::uint64_t from = 0, to = 0;
    for (std::size_t d = 0; d < last; ++d) {
      from = from * chunk[d] + row[d];
      to = to * extents[d] + first[d] + row[d];
    }
    from = from * chunk[last];
    to = to * extents[last] + first[last];
    std::memcpy(all.data() + to * element, part.data() + from * element, run);
    std::size_t d = last;
    for (; d > 0; --d) {
      if (++row[d - 1] < chunk[d - 1] && first[d - 1] + row[d - 1] < extents[d - 1]) break;
      row[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// The elements of an array in parts, as the file has them. The library only finds the parts: it
/// believes what a damaged one says of its size.
inline std::vector<std::byte> read_hdf5_chunks(const Hdf5Object& dataset, const Hdf5Object& how,
                                               const std::string& path,
                                               const std::vector<std::uint64_t>& extents,
                                               std::size_t element, const Hdf5Sizes& sizes) {
  const std::size_t rank = extents.size();
  std::vector<hsize_t> chunk(rank), first(rank);
  if (hdf5_checked(H5Pget_chunk(how.id(), static_cast<int>(rank), chunk.data()), path) !=
      static_cast<int>(rank))
    refuse_hdf5(path,
                concat({"it is ", shape_text(extents), ", and its parts are of another rank"}));
  const std::vector<std::uint64_t> parts(chunk.begin(), chunk.end());
  const std::uint64_t size =
      array_size(parts, element).value_or(std::numeric_limits<std::uint64_t>::max());
  if (size > sizes.chunk || size == 0)
    refuse_hdf5(path, concat({"its parts have more than ", sizes.chunk, " bytes each, or none"}));
  // The file says of each where it is, in 8 bytes; and each is made, however little is taken of it.
  const std::uint64_t most = std::min(sizes.file / 8, sizes.chunk / size);
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < rank && chunks <= most; ++d)
    chunks *= (extents[d] - 1) / chunk[d] + 1;
  if (chunks > most)
    refuse_hdf5(path, concat({"it is ", shape_text(extents), " in parts of ", shape_text(parts),
                              ": these are more, or larger, than the file can have"}));
  const std::vector<ChunkFilter> filters = hdf5_filters(how, path, element);
  std::vector<std::byte> all(static_cast<std::size_t>(*array_size(extents, element))), stored;
  for (;;) {
    hsize_t there = 0;
    hdf5_checked(H5Dget_chunk_storage_size(dataset.id(), first.data(), &there), path);
    if (there == 0 || there > sizes.file)
      refuse_hdf5(path, concat({"damaged: a part has ", there, " bytes"}));
    stored.resize(static_cast<std::size_t>(there));
    std::uint32_t skipped = 0;
    hdf5_checked(H5Dread_chunk(dataset.id(), H5P_DEFAULT, first.data(), &skipped, stored.data()),
                 path);
    place_hdf5_chunk(undo_filters(path, stored, filters, skipped, element, size), chunk, first,
                     extents, element, all);
    std::size_t d = rank;
    for (; d > 0; --d) {  // to the next one, the last extent first
      if ((first[d - 1] += chunk[d - 1]) < extents[d - 1]) break;
      first[d - 1] = 0;
    }
    if (d == 0) return all;
  }
}

// What zlib makes of a byte at most, and some more.
inline constexpr std::uint64_t most_hdf5_expansion = 1100;

inline float decode_bfloat16(std::uint16_t bits) noexcept { return Bfloat16::decode(bits); }

class KerasWeightsReader {
 public:
  /// `most`: bytes that are read at most, of all arrays, from a file of `file_size` bytes.
  KerasWeightsReader(std::uint64_t most, std::uint64_t file_size)
      : most_(most), left_(most), file_size_(file_size) {}

  /// If the optimizer has more variables than `variables`, or not only numbers, keeps their count.
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
      refuse_hdf5(path, concat({"there are two arrays at ", in_quotes(array->name)}));
    found_.arrays.push_back(std::move(*array));
  }

  /// Nothing for whole numbers, which are seeds and counts, truth values and texts;
  /// `whole_numbers`: these become float64. Throws DataError for what may be a weight and is not
  /// read: numbers of 8 bits, compound ones, and the like.
  std::optional<SavedArray> read_array(const Hdf5Object& dataset, const std::string& path,
                                       bool whole_numbers) {
    const Hdf5Object type(H5Dget_type(dataset.id()), H5Tclose, path);
    const H5T_class_t kind = H5Tget_class(type.id());
    const std::size_t file_element = H5Tget_size(type.id());
    // NumPy has no such type; h5py calls it opaque.
    const bool is_named = kind == H5T_OPAQUE && H5Aexists(dataset.id(), "dtype") > 0;
    const bool is_bfloat16 = is_named && file_element == 2;
    const bool is_whole = kind == H5T_INTEGER;
    const auto refuse_type = [&](std::string_view type_name) {
      refuse_hdf5(path, concat({"its elements are ", type_name,
                                ", expected numbers with a point of 16, 32 or 64 "
                                "bits: save the model with such weights, not quantized"}));
    };
    if (!whole_numbers && is_whole && file_element == 1)
      refuse_type(H5Tget_sign(type.id()) == H5T_SGN_NONE ? "uint8" : "int8");
    if (kind == H5T_COMPOUND) refuse_type("compound (complex numbers, or records)");
    if (is_named && !is_bfloat16)
      refuse_type(
          concat({"opaque, of ", file_element, " bytes (float8, or another type of its own)"}));
    if (kind == H5T_FLOAT && file_element > sizeof(double))
      refuse_type(concat({"numbers with a point of ", 8 * file_element, " bits"}));
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
    const Hdf5Object how(H5Dget_create_plist(dataset.id()), H5Pclose, path);
    check_storage(dataset, how, path, array.extents, file_element);
    std::vector<std::byte> bytes(static_cast<std::size_t>(is_bfloat16 ? *size / 2 : *size));
    const hid_t wanted = is_bfloat16 ? type.id() : element == 4 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
    if (bytes.empty()) return array;
    if (H5Pget_layout(how.id()) == H5D_CHUNKED) {
      std::vector<std::byte> stored = read_hdf5_chunks(
          dataset, how, path, array.extents, file_element, {.chunk = most_, .file = file_size_});
      const std::size_t count = stored.size() / file_element;
      stored.resize(std::max(stored.size(), bytes.size()));  // it is converted in place
      hdf5_checked(H5Tconvert(type.id(), wanted, count, stored.data(), nullptr, H5P_DEFAULT), path);
      std::copy_n(stored.begin(), bytes.size(), bytes.begin());
    } else {
      hdf5_checked(H5Dread(dataset.id(), wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
                   path);
    }
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
  void check_storage(const Hdf5Object& dataset, const Hdf5Object& how, const std::string& path,
                     const std::vector<std::uint64_t>& extents, std::size_t element) const {
    const H5D_layout_t layout = H5Pget_layout(how.id());
    if (layout == H5D_VIRTUAL || H5Pget_external_count(how.id()) > 0)
      refuse_hdf5(path, "its elements are in other files, which are not read");
    std::uint64_t needed = array_size(extents, element).value_or(0);
    if (layout == H5D_CHUNKED) needed /= most_hdf5_expansion;
    const std::uint64_t stored = H5Dget_storage_size(dataset.id());
    if (stored < needed)
      refuse_hdf5(path, concat({"it is ", shape_text(extents), ", and the file has only ", stored,
                                " bytes of it"}));
  }

  std::uint64_t most_, left_, file_size_;
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
  KerasWeightsReader reader(std::min<std::uint64_t>(most, most_hdf5_expansion * bytes.size()),
                            bytes.size());
  reader.read(file, variables);
  return reader.take();
}

inline void write_keras_variable(const Hdf5Object& group, const std::string& number,
                                 const Hdf5Object& space, hid_t file_type, hid_t memory_type,
                                 const void* values) {
  const Hdf5Object how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, number);
  hdf5_checked(H5Pset_obj_track_times(how.id(), false), number);  // equal weights, equal files
  const Hdf5Object dataset(H5Dcreate2(group.id(), number.c_str(), file_type, space.id(),
                                      H5P_DEFAULT, how.id(), H5P_DEFAULT),
                           H5Dclose, number);
  hdf5_checked(H5Dwrite(dataset.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), number);
}

inline void write_keras_array(const Hdf5Object& group, const std::string& number,
                              const SavedArray& array) {
  const std::vector<hsize_t> extents(array.extents.begin(), array.extents.end());
  const Hdf5Object space(
      extents.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      H5Sclose, array.name);
  const hid_t type = scalar_size(array.scalar) == 4 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
  write_keras_variable(group, number, space, type, type, array.bytes.data());
}

/// A layer's name, as h5py writes text.
inline void write_keras_name(const Hdf5Object& group, const std::string& name) {
  const Hdf5Object type(H5Tcopy(H5T_C_S1), H5Tclose, name);
  hdf5_checked(H5Tset_size(type.id(), H5T_VARIABLE), name);
  hdf5_checked(H5Tset_cset(type.id(), H5T_CSET_UTF8), name);
  const Hdf5Object space(H5Screate(H5S_SCALAR), H5Sclose, name);
  const Hdf5Object attribute(
      H5Acreate2(group.id(), "name", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      name);
  const char* const text = name.c_str();
  hdf5_checked(H5Awrite(attribute.id(), type.id(), &text), name);
}

/// See Hdf5Codec. Throws DataError for an array that has no place in the layout.
inline std::vector<std::byte> encode_keras_weights(std::span<const SavedArray> arrays,
                                                   const KerasLayout& layout,
                                                   const KerasOptimizer& optimizer) {
  std::map<std::string_view, const SavedArray*> left;
  for (const SavedArray& array : arrays) left.emplace(array.name, &array);
  const std::map<std::string_view, const SavedArray*> all = left;

  const Hdf5Session session;
  const Hdf5Object access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, {});
  put_into_memory(access);
  const Hdf5Object file(H5Fcreate(hdf5_file_in_memory, H5F_ACC_TRUNC, H5P_DEFAULT, access.id()),
                        H5Fclose, {});
  const Hdf5Object with_parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose, {});
  hdf5_checked(H5Pset_create_intermediate_group(with_parents.id(), 1), {});
  const auto make_group = [&](const std::string& path) {
    return H5Gcreate2(file.id(), path.c_str(), with_parents.id(), H5P_DEFAULT, H5P_DEFAULT);
  };
  write_keras_name(Hdf5Object(make_group("vars"), H5Gclose, "vars"), "sequential");
  for (const KerasGroup& layer : layout.groups) {
    const Hdf5Object group(make_group(layer.path + "/vars"), H5Gclose, layer.path);
    write_keras_name(group, layer.name);
    for (std::size_t i = 0; i < layer.variables.size(); ++i) {
      const std::string number = std::to_string(i);
      if (layer.variables[i].empty()) {
        const std::int32_t zero = 0;
        write_keras_variable(group, number, Hdf5Object(H5Screate(H5S_SCALAR), H5Sclose, number),
                             H5T_STD_I32LE, H5T_NATIVE_INT32, &zero);
        continue;
      }
      const auto at = all.find(layer.variables[i]);  // (Keras has some of them twice)
      if (at == all.end()) refuse_hdf5(layer.variables[i], "the model has no such variable");
      write_keras_array(group, number, *at->second);
      left.erase(at->first);
    }
  }
  if (!left.empty())
    refuse_hdf5(left.begin()->first,
                "this variable has no place in Keras's file: the model does not tell its layers");

  if (!optimizer.name.empty()) {
    const Hdf5Object group(make_group("optimizer/vars"), H5Gclose, "optimizer");
    write_keras_name(group, optimizer.name);
    write_keras_variable(group, "0", Hdf5Object(H5Screate(H5S_SCALAR), H5Sclose, "optimizer"),
                         H5T_STD_I64LE, H5T_NATIVE_INT64, &optimizer.iterations);
    for (std::size_t i = 0; i < optimizer.variables.size(); ++i)
      write_keras_array(group, std::to_string(i + 1), optimizer.variables[i]);
  }

  hdf5_checked(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), {});
  const auto size = hdf5_checked(H5Fget_file_image(file.id(), nullptr, 0), {});
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  hdf5_checked(H5Fget_file_image(file.id(), bytes.data(), bytes.size()), {});
  return bytes;
}

inline constexpr Hdf5Codec hdf5_library{&encode_keras_weights, &decode_keras_weights};
inline const bool has_hdf5_library = (hdf5_codec = &hdf5_library) != nullptr;

}}}  // namespace lockstep::detail

#endif
