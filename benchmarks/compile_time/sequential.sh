#!/usr/bin/env bash
# Writes a program that trains a Sequential of many layers, no two of which are alike.
#
#   benchmarks/compile_time/sequential.sh LAYERS
#
# Half of them are Conv2D and half Dense, with a Flatten between.
set -euo pipefail
[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || { echo "usage: benchmarks/compile_time/sequential.sh LAYERS" >&2; exit 2; }

convolutions=$(($1 / 2))
layers='ls::Input<8, 8, 3>'
for ((i = 0; i < convolutions; ++i)); do
  layers+=", ls::Conv2D<$((4 + i)), 3, ls::ReLU, same>"
done
layers+=', ls::Flatten'
for ((i = convolutions; i < $1 - 1; ++i)); do
  layers+=", ls::Dense<$((20 + i)), ls::ReLU>"
done

cat <<PROGRAM
#include <lockstep/lockstep.hpp>
#include <vector>
namespace ls = lockstep;
constexpr ls::Conv2DOptions same{.padding = ls::Padding::same};
using Net = ls::Sequential<$layers, ls::Dense<10>>;

int main() {
  const ls::Tensor<float> images(std::vector<float>(64 * 192), {64, 8, 8, 3});
  const ls::Tensor<int> labels(std::vector<int>(64));
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::SGD{}, ls::Accuracy{});
  model.fit(ls::from_tensor_slices(images, labels).batch(32), {.epochs = 1});
}
PROGRAM
