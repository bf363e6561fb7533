#!/usr/bin/env bash
# Sets up the libraries that lockstep is compared with, as far as this machine allows, and says what
# is missing. On a bare Debian or Ubuntu machine it installs the compiler and lockstep's own
# dependencies, too.
#
#   benchmarks/peers/setup.sh [onednn] [torch] [tensorflow] [gloo] [openmpi] [llmc] [onnxruntime] [llama_cpp]
#
# Without arguments, all of them:
#
#   onednn      Debian's libdnnl-dev (2.6 or another 2.x), ocl-icd-opencl-dev, which its CMake files
#               need, and libbenchmark-dev, which lockstep's own benchmarks need as well
#   torch       PyTorch for CPUs in a virtual environment, build/peers/torch. Set
#               LOCKSTEP_TORCH_PYTHON to use a Python that has it already
#   tensorflow  likewise, build/peers/tensorflow and LOCKSTEP_TENSORFLOW_PYTHON
#   onnxruntime likewise, build/peers/onnxruntime and LOCKSTEP_ONNXRUNTIME_PYTHON
#   gloo        Debian's libgloo-dev (0.5)
#   openmpi     Debian's libopenmpi-dev and openmpi-bin (4.1)
#   llmc        llm.c from GitHub, build/peers/llm.c, and two programs of llmc_step.c and its
#               train_gpt2.c: build/peers/llmc_O3 and, with the Makefile's flag of llm.c,
#               build/peers/llmc_Ofast. Set LOCKSTEP_LLMC to use a checkout that is there already,
#               and CC for a compiler other than gcc
#   llama_cpp   llama.cpp from GitHub, build/peers/llama.cpp, for its processor alone, and a program of
#               llama_cpp_generation.cpp: build/peers/llama_cpp. Set LOCKSTEP_LLAMA_CPP to use a checkout
#               that has a build/bin with shared libraries already, and CXX
#
# The exit code is 3 when something could not be set up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

missing=0

say() { echo "peers/setup.sh: $*" >&2; }
lacks() {
  say "missing: $*"
  missing=3
}

install_packages() {
  command -v apt-get >/dev/null || return 1
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || return 1
    as_root=(sudo)
  fi
  say "installing $*"
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

has_header() { [[ -e /usr/include/$1 || -e /usr/local/include/$1 || -e /usr/include/$(uname -m)-linux-gnu/$1 ]]; }

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# Debian's packages that are not installed yet; they come in the versions of its release.
setup_packages() { # PACKAGE...
  local packages=()
  for package in "$@"; do
    is_installed "$package" || packages+=("$package")
  done
  ((${#packages[@]} == 0)) || install_packages "${packages[@]}" || lacks "${packages[@]}"
}

setup_onednn() {
  has_header benchmark/benchmark.h || setup_packages libbenchmark-dev
  # A oneDNN that the user has built, or Debian's, whose CMake files ask for OpenCL.
  if is_installed libdnnl-dev || ! has_header oneapi/dnnl/dnnl.hpp; then
    setup_packages libdnnl-dev ocl-icd-opencl-dev
  fi
}

# A package for Python in a virtual environment of its own, build/peers/MODULE.
setup_python() { # NAME MODULE PYTHON INDEX PACKAGE...
  local name=$1 module=$2 python=$3 index=$4
  shift 4
  if [[ -z $python ]]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3 python3-venv || true
    python=build/peers/$module/bin/python
    [[ -x $python ]] || python3 -m venv "build/peers/$module" ||
      { lacks "$name: python3 cannot make a virtual environment (Debian: python3-venv)"; return; }
    if ! "$python" -c "import $module" 2>/dev/null; then
      say "installing $* into build/peers/$module"
      { [[ -n $index ]] && "$python" -m pip install --quiet --index-url "$index" "$@" 2>/dev/null; } ||
        "$python" -m pip install --quiet "$@" || { lacks "$name: pip could not install $*"; return; }
    fi
  fi
  "$python" -c "import $module" 2>/dev/null || { lacks "$name: $python does not have it"; return; }
  say "$name $(TF_CPP_MIN_LOG_LEVEL=3 "$python" -c "import $module; print($module.__version__)" 2>/dev/null)"
}

# (PyTorch's own index has a build without CUDA, a tenth of the size; CPU kernels are the same.)
setup_torch() {
  setup_python PyTorch torch "${LOCKSTEP_TORCH_PYTHON:-}" https://download.pytorch.org/whl/cpu torch==2.5.1 numpy==2.1.3
}
setup_tensorflow() {
  setup_python TensorFlow tensorflow "${LOCKSTEP_TENSORFLOW_PYTHON:-}" '' tensorflow-cpu==2.18.0
}

setup_onnxruntime() {
  setup_python onnxruntime onnxruntime "${LOCKSTEP_ONNXRUNTIME_PYTHON:-}" '' onnxruntime==1.32.0 numpy
}

# (The other flags are those of llm.c's Makefile.)
setup_llmc() {
  local commit=f1e2ace651495b74ae22d45d1723443fd00ecd3a url=https://github.com/karpathy/llm.c
  local checkout=${LOCKSTEP_LLMC:-build/peers/llm.c} compiler=${CC:-gcc} built_from variant
  rm -f build/peers/llmc_O3 build/peers/llmc_Ofast # so that none is left that is older than this
  if [[ -z ${LOCKSTEP_LLMC:-} && ! -e $checkout/train_gpt2.c ]]; then
    command -v git >/dev/null || install_packages git || true
    say "fetching $url"
    { git init --quiet "$checkout" && git -C "$checkout" fetch --quiet --depth 1 "$url" $commit &&
      git -C "$checkout" checkout --quiet FETCH_HEAD; } || { lacks "llm.c: git could not fetch $url"; return; }
  fi
  [[ -e $checkout/train_gpt2.c ]] || { lacks "llm.c: $checkout has no train_gpt2.c"; return; }
  command -v "$compiler" >/dev/null || { lacks "llm.c: there is no compiler $compiler (CC)"; return; }
  built_from="llm.c $(git --git-dir "$checkout/.git" rev-parse --short=7 HEAD 2>/dev/null || echo '(commit unknown)')"
  built_from+=", $("$compiler" --version | head -n 1)"
  mkdir -p build/peers
  for variant in O3 Ofast; do
    "$compiler" -$variant -march=native -fopenmp -DOMP -Wno-unused-result -DVARIANT="\"$variant\"" -DBUILT_FROM="\"$built_from\"" \
      -I "$checkout" benchmarks/peers/llmc_step.c -o build/peers/llmc_$variant -lm ||
      { lacks "llm.c: $compiler could not build it with OpenMP"; return; }
  done
  say "$built_from"
}

# (Its processor's kernels are compiled for this machine, which is its default.)
setup_llama_cpp() {
  local commit=c392e5094deaf2d1a7c18683214f007fad3fe42b url=https://github.com/ggml-org/llama.cpp
  local checkout=${LOCKSTEP_LLAMA_CPP:-build/peers/llama.cpp} libraries
  rm -f build/peers/llama_cpp
  if [[ -z ${LOCKSTEP_LLAMA_CPP:-} && ! -e $checkout/build/bin/libllama.so ]]; then
    command -v git >/dev/null || install_packages git || true
    say "fetching and building $url"
    { git init --quiet "$checkout" && git -C "$checkout" fetch --quiet --depth 1 "$url" $commit &&
      git -C "$checkout" checkout --quiet FETCH_HEAD &&
      cmake -S "$checkout" -B "$checkout/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF >/dev/null &&
      cmake --build "$checkout/build" --target llama llama-bench --parallel "$(nproc)" >/dev/null; } ||
      { lacks "llama.cpp: could not fetch and build $url"; return; }
  fi
  libraries=$(realpath "$checkout/build/bin")
  [[ -e $libraries/libllama.so ]] || { lacks "llama.cpp: $libraries has no libllama.so"; return; }
  mkdir -p build/peers
  "${CXX:-g++}" -std=c++20 -O2 -isystem "$checkout/include" -isystem "$checkout/ggml/include" benchmarks/peers/llama_cpp_generation.cpp \
    -o build/peers/llama_cpp -L "$libraries" -Wl,-rpath,"$libraries" -lllama -lggml -lggml-base ||
    { lacks 'llama.cpp: its program could not be built'; return; }
  say "llama.cpp $(git -C "$checkout" rev-parse --short=7 HEAD 2>/dev/null || echo '(commit unknown)')"
}

./quickstart.sh install >&2 || lacks 'what ./quickstart.sh needs'
(($#)) || set -- onednn torch tensorflow gloo openmpi llmc onnxruntime llama_cpp
for peer in "$@"; do
  case $peer in
    onednn) setup_onednn ;;
    torch) setup_torch ;;
    tensorflow) setup_tensorflow ;;
    gloo) setup_packages libgloo-dev ;;
    openmpi) setup_packages libopenmpi-dev openmpi-bin ;;
    llmc) setup_llmc ;;
    onnxruntime) setup_onnxruntime ;;
    llama_cpp) setup_llama_cpp ;;
    *)
      say "unknown peer: $peer (onednn, torch, tensorflow, gloo, openmpi, llmc, onnxruntime, llama_cpp)"
      exit 2
      ;;
  esac
done
exit "$missing"
