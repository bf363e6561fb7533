// Keras's .weights.h5 files, written with HDF5's library.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_HDF5)

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/detail/hdf5_objects.hpp"
#include "lockstep/checkpoint/keras_layout.hpp"
#include "lockstep/checkpoint/saved_array.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
      const auto at = left.find(layer.variables[i]);
      if (at == left.end()) refuse_hdf5(layer.variables[i], "the model has no such variable");
      write_keras_array(group, number, *at->second);
      left.erase(at);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
