// Random masks for many samples at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/philox.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to[f * stride + sample] = scale where number f of RandomStream(keys[sample]) is at least
/// `threshold`, else 0, for features f in [0, features) and batch_multiple samples, for
/// kernels::dispatch. It is the same on every instruction set.
template <class T>
struct RandomMask {
  const std::uint64_t* keys = nullptr;  ///< RandomKey::value() of each sample
  std::uint64_t threshold = 0;          ///< at most 2^32
  T scale = 1;
  std::size_t features = 0;
  std::size_t stride = 0;  ///< from feature to feature
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for (std::size_t block = 0; block < (features + 3) / 4; ++block)
      for (std::size_t sample = 0; sample < batch_multiple; sample += lanes<double, Isa>)
        write<Isa>(block, keys + sample, std::min<std::size_t>(4, features - 4 * block),
                   to + 4 * block * stride + sample);
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL void write(std::uint64_t block, const std::uint64_t* sample_keys,
                             std::size_t count, T* first) const {
    using Values = Vector<double, Isa>;
    typename Philox<Isa>::Words words[4];
    Philox<Isa>::generate(block, sample_keys, words);
    for (std::size_t word = 0; word < count; ++word) {
      const Values values =
          words[word] >= threshold ? Values{} + static_cast<double>(scale) : Values{};
      for (std::size_t i = 0; i < lanes<double, Isa>; ++i)
        first[word * stride + i] = static_cast<T>(values[i]);
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(RandomMask);

}}}  // namespace lockstep::kernels
