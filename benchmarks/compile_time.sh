#!/usr/bin/env bash
# Measures what lockstep costs to compile, in U: the user seconds of compile_time/third_party.cpp at
# -O2, on the same machine in the same minutes. Prints a Markdown table.
#
#   benchmarks/compile_time.sh [--edits] [--check] [RUNS]
#
# --edits: only what somebody waits for who edits a program that links the library. RUNS (3) of each
# command, of which the fewest user seconds count; CXX=clang++ measures another compiler. Let nothing
# else run at the same time.
# --check: in place of times, what g++ allocates (-ftime-report), which no load changes, in ratio to
# third_party.cpp's; fails where that is more than 1.1 times its budget.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=3 edits=no check=no
for argument in "$@"; do
  case $argument in
    --edits) edits=yes ;;
    --check) check=yes ;;
    [1-9]*) runs=$argument ;;
    *) echo 'usage: benchmarks/compile_time.sh [--edits] [--check] [RUNS]' >&2 && exit 2 ;;
  esac
done
compiler=${CXX:-g++}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# CMake knows where the dependencies are.
response=${LOCKSTEP_FLAGS:-build/release/tests/flags/compile_flags.txt}
[[ -e $response ]] || cmake --preset release >/dev/null
flags=(-DNDEBUG "@$response")
library=("${flags[@]}" -DLOCKSTEP_COMPILED=1)
"$compiler" -std=c++20 -O1 benchmarks/compile_time/measure.cpp -o "$out/measure"

unit='' failed=no
row() { # NAME BUDGET ALLOCATION COMMAND...
  local name=$1 budget=$2 allocation=$3 figure memory=''
  shift 3
  if [[ $check == yes ]]; then
    budget=$allocation
    "$@" >/dev/null 2>"$out/report" || { cat "$out/report" >&2 && exit 1; }
    figure=$(awk '/^ TOTAL/ { sum += $NF ~ /k$/ ? $NF / 1024 : $NF } END { print sum + 0 }' "$out/report")
    [[ $figure != 0 ]] || { echo 'compile_time.sh: --check needs g++, which says what it allocates' >&2 && exit 1; }
  else
    read -r figure memory < <("$out/measure" "$runs" "$@")
  fi
  unit=${unit:-$figure}
  [[ $check == no || -z $budget ]] ||
    awk -v budget="$budget" -v figure="$figure" -v unit="$unit" 'BEGIN { exit figure / unit > 1.1 * budget }' || failed=yes
  awk -v OFS=' | ' -v name="$name" -v figure="$figure" -v unit="$unit" -v budget="$budget" -v memory="${memory:+ $memory |}" \
    'BEGIN { printf "| %s | %.2f | %s | %.1f |%s\n", name, figure / unit, budget, figure, memory }'
}

echo "$("$compiler" --version | head -n 1); $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
echo
if [[ $check == yes ]]; then
  flags+=(-ftime-report)
  library+=(-ftime-report)
  printf '| | of U | budget | MB allocated |\n|---|---|---|---|\n'
else
  printf '| | U | budget | user seconds | MB |\n|---|---|---|---|---|\n'
fi
row 'U: Eigen, Asio, nlohmann_json and cereal, each used a little, -O2' '' '' \
  "$compiler" -O2 "${flags[@]}" -c benchmarks/compile_time/third_party.cpp -o "$out/third_party.o"
echo '#include <lockstep/lockstep.hpp>' >"$out/headers.hpp"
row '`lockstep.hpp` with the library, -fsyntax-only' 0.25 0.52 \
  "$compiler" "${library[@]}" -fsyntax-only -x c++ "$out/headers.hpp"
row 'the precompiled header' 1 0.48 "$compiler" -O1 "${library[@]}" -x c++-header "$out/headers.hpp" -o "$out/headers.hpp.gch"
for name in tutorial mnist; do
  row "an edit of \`examples/$name.cpp\`: with the library and the precompiled header, -O1" \
    $([[ $name == tutorial ]] && echo 0.25 0.20 || echo 0.50 0.38) \
    "$compiler" -O1 "${library[@]}" -include "$out/headers.hpp" -c "examples/$name.cpp" -o "$out/program.o"
done
if [[ $edits == no ]]; then
  for layers in 5 20 50; do
    benchmarks/compile_time/sequential.sh $layers >"$out/sequential.cpp"
    row "a Sequential of $layers layers: with the library and the precompiled header, -O1" '' '' \
      "$compiler" -O1 "${library[@]}" -include "$out/headers.hpp" -c "$out/sequential.cpp" -o "$out/program.o"
  done
  # As cmake/library.cmake has it.
  o3=$(sed -n 's/^set(lockstep_O3 \(.*\))$/\1/p' cmake/library.cmake)
  o2=$(sed -n 's/^set(lockstep_O2 \(.*\))$/\1/p' cmake/library.cmake)
  o1=$(sed -n 's/^set(lockstep_O1 \(.*\))$/\1/p' cmake/library.cmake)
  # shellcheck disable=SC2016 # the inner shell expands it
  row 'the library, one source after the other' 9 7.2 \
    bash -c 'out=$1 o1=$2 o2=$3 o3=$4; shift 4
      for part in $o1; do "$@" -O1 -c "include/lockstep/src/$part.cpp" -o "$out/$part.o" || exit; done
      for part in $o2; do "$@" -O2 -c "include/lockstep/src/$part.cpp" -o "$out/$part.o" || exit; done
      for part in $o3; do "$@" -O3 -c "include/lockstep/src/$part.cpp" -o "$out/$part.o" || exit; done' \
    compile "$out" "$o1" "$o2" "$o3" "$compiler" "${library[@]}"
  for name in tutorial alone; do
    row "\`examples/$name.cpp\` from headers alone, -O2" $([[ $name == tutorial ]] && echo 4.5 4.0 || echo 2.2 2.4) \
      "$compiler" -O2 "${flags[@]}" -c "examples/$name.cpp" -o "$out/program.o"
  done
fi
if [[ $check == yes && $failed == yes ]]; then
  echo 'a row allocates more than 1.1 times its budget' >&2
  exit 1
fi
