#!/usr/bin/env bash
# Generator beside transformers, one after the other in one run: tokens a second, and whether the
# logits and the tokens are equal. Both have the same random weights.
#
# benchmarks/generation.sh [BUILD (default: build/release)] [PYTHON (with torch and transformers)]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} python=${2:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" benchmarks/peers/generation.py make "$folder"
echo '## lockstep, one thread'
"$build/benchmarks/benchmark_generation" "$folder"
for threads in 1 2; do
  echo "## transformers, $threads thread(s)"
  "$python" benchmarks/peers/generation.py compare "$folder" "$threads" 2>"$folder/stderr.txt" ||
    { cat "$folder/stderr.txt" >&2; exit 1; }
done
