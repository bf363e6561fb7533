#!/usr/bin/env bash
# Measures how long, and with how much memory, lockstep's programs are compiled and linked at -O2,
# and prints a Markdown table.
#
#   benchmarks/compile_time.sh [RUNS]
#
# Makes 5 runs of each command unless told otherwise; CXX=clang++ measures another compiler.
#
# Run ./quickstart.sh before, which installs what is needed, and let nothing else run at the same
# time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:-5}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "usage: benchmarks/compile_time.sh [RUNS]" >&2; exit 2; }
compiler=${CXX:-g++}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# CMake knows where the dependencies are, and writes the compiled part's sources.
cmake --preset release >/dev/null
flags=(-O2 -DNDEBUG "@build/release/tests/flags/compile_flags.txt")
libraries=(-pthread)
if grep -q LOCKSTEP_HAS_ZLIB build/release/tests/flags/compile_flags.txt; then libraries+=(-lz); fi
if grep -q LOCKSTEP_HAS_OPENSSL build/release/tests/flags/compile_flags.txt; then libraries+=(-lssl -lcrypto); fi
for room in include/lockstep/*/; do
  cmake -D INCLUDE="$PWD/include" -D ROOM="$(basename "$room")" -D OUTPUT="$out/$(basename "$room").cpp" \
    -P cmake/compiled/write_source.cmake
done

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
# shellcheck disable=SC2016 # the inner shell expands it
measure '`lockstep::compiled` itself, once, one source after the other' \
  bash -c 'out=$1; shift; for source in "$out"/*.cpp; do "$@" -c "$source" -o "${source%.cpp}.o" || exit; done' \
  compile "$out" "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1
ar rc "$out/liblockstep.a" "$out"/*.o
measure 'the tutorial with `lockstep::compiled`' \
  "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1 examples/tutorial.cpp "$out/liblockstep.a" -o "$out/tutorial" "${libraries[@]}"
measure 'no lockstep: Eigen, Asio, nlohmann_json and cereal, each used a little' \
  "$compiler" "${flags[@]}" benchmarks/compile_time/third_party.cpp -o "$out/third_party" "${libraries[@]}"
for layers in 5 20 50; do
  benchmarks/compile_time/sequential.sh $layers > "$out/sequential.cpp"
  measure "a Sequential of $layers Conv2D and Dense layers with \`lockstep::compiled\`" \
    "$compiler" "${flags[@]}" -DLOCKSTEP_COMPILED=1 -c "$out/sequential.cpp" -o "$out/sequential.o"
done
