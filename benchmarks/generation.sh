#!/usr/bin/env bash
# Generator beside llama.cpp and transformers, one after the other in one run: tokens a second, and
# whether the logits and the tokens are equal. All have the same random weights.
#
# benchmarks/generation.sh [BUILD (default: build/release)] [PYTHON (with torch and transformers)] [ROUNDS (default: 1)]
#
# llama.cpp is there after benchmarks/peers/setup.sh llama_cpp; without it, its rows are not measured,
# which is said. Lockstep and llama.cpp take turns for so many rounds; transformers has one.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} python=${2:-python3} rounds=${3:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" benchmarks/peers/generation.py make "$folder"
[[ -x build/peers/llama_cpp ]] ||
  echo 'generation.sh: NOT MEASURED: llama.cpp, which is not built (benchmarks/peers/setup.sh llama_cpp)' >&2
for ((round = 0; round < rounds; ++round)); do
  echo '## lockstep, one thread'
  "$build/benchmarks/benchmark_generation" "$folder"
  [[ -x build/peers/llama_cpp ]] || continue
  for threads in 1 2; do
    echo "## llama.cpp, $threads thread(s)"
    build/peers/llama_cpp "$folder" "$threads"
  done
done
for threads in 1 2; do
  echo "## transformers, $threads thread(s)"
  "$python" benchmarks/peers/generation.py compare "$folder" "$threads" 2>"$folder/stderr.txt" ||
    { cat "$folder/stderr.txt" >&2; exit 1; }
done
