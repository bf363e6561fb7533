#!/usr/bin/env bash
# Measures how long, and with how much memory, lockstep's programs are compiled and linked at -O2, and prints a Markdown table.
#
#   benchmarks/compile_time.sh [RUNS]      5 runs of each command unless told otherwise; CXX=clang++ measures another compiler
#
# Run ./quickstart.sh before, which installs what is needed, and let nothing else run at the same time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:-5}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "usage: benchmarks/compile_time.sh [RUNS]" >&2; exit 2; }
compiler=${CXX:-g++}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# CMake knows where the dependencies are and writes the compiled part's source.
cmake --preset release >/dev/null
flags=(-O2 -DNDEBUG "@build/release/tests/flags/compile_flags.txt")
libraries=(-pthread)
if grep -q LOCKSTEP_HAS_ZLIB build/release/tests/flags/compile_flags.txt; then libraries+=(-lz); fi
if grep -q LOCKSTEP_HAS_OPENSSL build/release/tests/flags/compile_flags.txt; then libraries+=(-lssl -lcrypto); fi
compiled_source=build/release/cmake/compiled/lockstep.cpp

"$compiler" -std=c++20 -O1 benchmarks/compile_time/measure.cpp -o "$out/measure"
measure() { "$out/measure" "$runs" "$@"; }

echo "$("$compiler" --version | head -n 1); $(nproc) cores; $runs runs of each"
echo
echo '| program | seconds: median (min to max) | peak memory, MB |'
echo '|---|---|---|'
measure 'the tutorial (`examples/tutorial.cpp`), headers only' \
  "$compiler" "${flags[@]}" examples/tutorial.cpp -o "$out/tutorial" "${libraries[@]}"
measure 'training alone (`examples/alone.cpp`), headers only' \
  "$compiler" "${flags[@]}" examples/alone.cpp -o "$out/alone" "${libraries[@]}"
measure '`lockstep::compiled` itself, once' \
  "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1 -DLOCKSTEP_COMPILED_SOURCE=1 -c "$compiled_source" -o "$out/lockstep.o"
measure 'the tutorial with `lockstep::compiled`' \
  "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1 examples/tutorial.cpp "$out/lockstep.o" -o "$out/tutorial" "${libraries[@]}"
measure 'no lockstep: Eigen, Asio, nlohmann_json and cereal, each used a little' \
  "$compiler" "${flags[@]}" benchmarks/compile_time/third_party.cpp -o "$out/third_party" "${libraries[@]}"
for layers in 5 20 50; do
  benchmarks/compile_time/sequential.sh $layers > "$out/sequential.cpp"
  measure "a Sequential of $layers Conv2D and Dense layers with \`lockstep::compiled\`" \
    "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1 -c "$out/sequential.cpp" -o "$out/sequential.o"
done
