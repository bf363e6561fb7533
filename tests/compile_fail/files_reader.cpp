// expect-error: the function of from_files.paths, reader. must be callable as reader.const std::string& path. and
// expect-error 2: the function of from_files.paths, reader. must be callable as reader.const std::string& path. and
#include <lockstep/data/files.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ls = lockstep;

int main() {
  const ls::Tensor<float> x(std::vector<float>(8), {2, 4});
  const ls::Tensor<int> y(std::vector<int>{0, 1});
#if LOCKSTEP_COMPILE_FAIL == 1
  const auto files =
      ls::from_files({"a"}, [&](const std::string&) { return ls::from_tensor_slices(x, y); });
#elif LOCKSTEP_COMPILE_FAIL == 2
  const auto files = ls::from_files({"a"}, [&](int) { return std::pair(x, y); });
#else
  const auto files = ls::from_files({"a"}, [&](const std::string&) { return std::pair(x, y); });
#endif
  return files.cardinality() == 2 ? 0 : 1;
}
