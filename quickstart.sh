#!/usr/bin/env bash
# The first commands to give: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
usage: ./quickstart.sh [main] [options] [-- ARGUMENTS]
       ./quickstart.sh test [options] [-- ARGUMENTS]
       ./quickstart.sh install [options]

main (default)  Installs what is missing, builds examples/tutorial.cpp, and trains its CNN on the embedded digits with two
                worker processes for 3 epochs of 70 steps. ARGUMENTS replace `--workers 2`.
test            Installs what is missing, builds the tests that tell whether the library works on this machine, and runs
                them; all tests with --label full. ARGUMENTS go to ctest.
install         Installs what is missing for both, and no more.

  --preset NAME   a configuration of CMakePresets.json: release (default), debug, asan, tsan, release-clang, ...
  --label LABEL   test: quick (default), or full: all tests
  --jobs N        compiler processes (default: as many as cores and free memory allow)
  --help          this text

Environment: LOCKSTEP_MNIST_DIR=DIR gives the tests MNIST's IDX files; LOCKSTEP_DEVELOPMENT=ON makes warnings errors.
TEXT
}

fail() {
  echo "quickstart.sh: $*" >&2
  exit 2
}

command=main preset=release label=quick jobs='' arguments=()
while (($#)); do
  case $1 in
    main | test | install) command=$1 ;;
    --preset | --label | --jobs)
      (($# > 1)) || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    --help | -h) usage && exit ;;
    --) shift && arguments=("$@") && break ;;
    *) fail "unknown argument: $1 (see --help)" ;;
  esac
  shift
done
[[ $label == quick || $label == full ]] || fail "--label is quick or full, not $label"
[[ $jobs =~ ^([1-9][0-9]*)?$ ]] || fail "--jobs needs a number, not $jobs"

# --- what is missing ------------------------------------------------------------------------------

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
has_file() { [[ -e /usr/$1 || -e /usr/local/$1 ]]; }
need_file() { has_file "$1" || missing+=("$2"); }

need_command cmake cmake
case $preset in
  *clang) need_command clang++ clang ;;
  *) [[ -n ${CXX:-} ]] || need_command c++ g++ ;;
esac
command -v make >/dev/null || need_command ninja ninja-build
missing_tools=${#missing[@]}
need_file 'include/eigen3/Eigen/Core' libeigen3-dev
need_file 'include/asio.hpp' libasio-dev
need_file 'include/nlohmann/json.hpp' nlohmann-json3-dev
need_file 'include/cereal/cereal.hpp' libcereal-dev
need_file 'include/zlib.h' zlib1g-dev
need_file 'include/openssl/hmac.h' libssl-dev
[[ $command == main ]] || need_file 'include/doctest/doctest.h' doctest-dev

can_install() { command -v apt-get >/dev/null && { ((EUID == 0)) || command -v sudo >/dev/null; }; }
install_packages() {
  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  echo "quickstart.sh: installing $*"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}
if ((${#missing[@]})); then
  if can_install; then
    install_packages "${missing[@]}"
  else
    echo "quickstart.sh: not installed here, and cannot be by this user (Debian's names): ${missing[*]}" >&2
    ((missing_tools == 0)) || fail 'please install the compiler and the build tools first'
    echo 'quickstart.sh: CMake fetches the sources of the libraries that lockstep needs, and does without the others' >&2
  fi
fi

# Some releases of Debian have clang's run-time library in a package of its own.
links_sanitizers() {
  local program result=0
  program=$(mktemp)
  clang++ -fsanitize=address -x c++ - -o "$program" <<<'int main() {}' 2>/dev/null || result=1
  rm -f "$program"
  return "$result"
}
if [[ $preset == [at]san-clang ]] && ! links_sanitizers; then
  if can_install; then install_packages libclang-rt-dev; fi
  links_sanitizers || fail 'clang++ cannot link the address sanitizer (Debian: libclang-rt-dev)'
fi

installed=$(cmake --version | sed -n 's/^cmake version //p')
[[ $(printf '%s\n' 3.24 "$installed" | sort -V | head -n 1) == 3.24 ]] ||
  fail "needs CMake 3.24, found $installed (a newer one: pip install cmake, or https://apt.kitware.com)"
[[ $command != install ]] || exit 0

# --- build ----------------------------------------------------------------------------------------

cores=$(nproc 2>/dev/null || echo 2)
if [[ -z $jobs ]]; then # a compiler process needs up to 1 GB
  jobs=$cores
  if [[ -r /proc/meminfo ]]; then
    fit=$(awk '/^MemAvailable/ { print int($2 / 1000000) }' /proc/meminfo)
    ((fit >= jobs)) || jobs=$((fit > 1 ? fit : 1))
  fi
fi
if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi

run() {
  echo "+ $*" >&2
  "$@"
}

# Warnings of a compiler that the authors have not seen must not stop a newcomer, nor must what only
# the tests need. A build folder keeps what it was configured with.
cached=$(sed -n 's/^LOCKSTEP_DEVELOPMENT:BOOL=//p' "build/$preset/CMakeCache.txt" 2>/dev/null || true)
options=(-D "LOCKSTEP_DEVELOPMENT=${LOCKSTEP_DEVELOPMENT:-${cached:-OFF}}")
if [[ $command == main ]] && ! has_file include/doctest/doctest.h; then options+=(-D LOCKSTEP_BUILD_TESTS=OFF); fi
run cmake --preset "$preset" "${options[@]}" >/dev/null

if [[ $command == main ]]; then
  run cmake --build "build/$preset" --parallel "$jobs" --target tutorial
  ((${#arguments[@]})) || arguments=(--workers 2)
  cd "build/$preset" # where it saves its backup
  run examples/tutorial "${arguments[@]}"
else
  targets=() run_tests=(ctest --test-dir "build/$preset" --no-tests=error --output-on-failure
    --parallel $((2 * cores))) # tests/CMakeLists.txt counts in halves
  if [[ $label == quick ]]; then
    targets=(--target lockstep_quick_tests)
    run_tests+=(--label-regex '^quick$')
  fi
  run cmake --build "build/$preset" --parallel "$jobs" "${targets[@]}"
  # The thread sanitizer of some compilers cannot live with all the randomness in the addresses of
  # newer kernels.
  if [[ $preset == tsan* ]] && setarch -R true 2>/dev/null; then run_tests=(setarch -R "${run_tests[@]}"); fi
  run "${run_tests[@]}" "${arguments[@]}"
fi
