#!/usr/bin/env bash
# Trains the tutorial's CNN on MNIST with five seeds, alone and with two workers, and prints loss
# and accuracy of each epoch as a Markdown table; then the test accuracy after five epochs with
# momentum.
#
#   benchmarks/accuracy.sh MNIST_FOLDER        the folder of MNIST's four IDX files, .gz or not
#
# Run ./quickstart.sh before, which builds the example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $# == 1 && -d $1 ]] || { echo "usage: benchmarks/accuracy.sh MNIST_FOLDER" >&2; exit 2; }
mnist=build/release/examples/mnist
[[ -x $mnist ]] || { echo "$mnist is missing: run ./quickstart.sh first" >&2; exit 2; }

# "lowest-highest" of a column of numbers.
range() { sort -g | awk 'NR == 1 { low = $1 } { high = $1 } END { printf "%s-%s", low, high }'; }

echo '| SGD 0.001, 3 x 70 steps, five seeds | epoch 1 | epoch 2 | epoch 3 |'
echo '|---|---|---|---|'
for workers in 1 2; do
  out=$(for seed in 1 2 3 4 5; do "$mnist" --data "$1" --workers "$workers" --seed "$seed" --verbose 2; done 2>/dev/null)
  for figure in loss accuracy; do
    row="| lockstep, $workers worker(s): $figure |"
    for epoch in 1 2 3; do
      values=$(grep -o "\- $figure: [0-9.]*" <<<"$out" | awk -v e=$epoch 'NR % 3 == e % 3 { printf "%.2f\n", $3 }')
      row+=" $(range <<<"$values") |"
    done
    echo "$row"
  done
done

echo
accuracies=$(for seed in 1 2 3 4 5; do
  "$mnist" --data "$1" --learning-rate 0.02 --momentum 0.9 --epochs 5 --steps-per-epoch 109 --seed "$seed" --verbose 0 |
    sed -n 's/.*val_accuracy=\([0-9.]*\).*/\1/p'
done)
echo "SGD 0.02, momentum 0.9, batch 64, 5 x 109 steps: test accuracy $(range <<<"$accuracies")," \
  "mean $(awk '{ sum += $1 } END { printf "%.4f", sum / NR }' <<<"$accuracies")"
