// What HDF5's library hands out and must get back, its errors, and its files in memory.
#pragma once

#include "lockstep/core/config.hpp"

#if defined(LOCKSTEP_HAS_HDF5)

#include <hdf5.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/utf8.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The innermost reason of the call that has just failed, in HDF5's words.
inline std::string hdf5_reason() {
  std::array<char, 160> text{};
  const H5E_walk2_t keep_first = [](unsigned number, const H5E_error2_t* error, void* to) {
    if (number == 0 && error->desc != nullptr)
      std::snprintf(static_cast<char*>(to), std::tuple_size_v<decltype(text)>, "%s", error->desc);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#endif
