#!/usr/bin/env bash
# Sets up the libraries that lockstep is compared with, as far as this machine allows, and says what is missing.
#
#   benchmarks/peers/setup.sh [onednn] [torch]        both unless told otherwise
#
# onednn: Debian's libdnnl-dev (2.6 or another 2.x), beside libbenchmark-dev, which lockstep's own benchmarks need as well.
# torch: PyTorch for CPUs in a virtual environment, build/peers/torch. Set LOCKSTEP_TORCH_PYTHON to use a Python that has it already.
#
# The exit code is 3 when something could not be set up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly torch_version=2.5.1 numpy_version=2.1.3
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

setup_onednn() {
  local packages=()
  has_header benchmark/benchmark.h || packages+=(libbenchmark-dev)
  has_header oneapi/dnnl/dnnl.hpp || packages+=(libdnnl-dev)
  ((${#packages[@]} == 0)) || install_packages "${packages[@]}" || lacks "${packages[@]}"
}

setup_torch() {
  local python=${LOCKSTEP_TORCH_PYTHON:-build/peers/torch/bin/python}
  if [[ -z ${LOCKSTEP_TORCH_PYTHON:-} && ! -x $python ]]; then
    python3 -m venv build/peers/torch || { lacks "PyTorch: python3 cannot make a virtual environment (Debian: python3-venv)"; return; }
  fi
  if ! "$python" -c 'import torch' 2>/dev/null; then
    [[ -z ${LOCKSTEP_TORCH_PYTHON:-} ]] || { lacks "PyTorch: $python does not have it"; return; }
    say "installing PyTorch $torch_version into build/peers/torch"
    # Its own index has a build without CUDA, a tenth of the size; CPU kernels are the same.
    "$python" -m pip install --quiet --index-url https://download.pytorch.org/whl/cpu "torch==$torch_version" "numpy==$numpy_version" 2>/dev/null ||
      "$python" -m pip install --quiet "torch==$torch_version" "numpy==$numpy_version" ||
      { lacks "PyTorch: pip could not install torch $torch_version"; return; }
  fi
  say "PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
}

(($#)) || set -- onednn torch
for peer in "$@"; do
  case $peer in
    onednn) setup_onednn ;;
    torch) setup_torch ;;
    *)
      say "unknown peer: $peer (onednn, torch)"
      exit 2
      ;;
  esac
done
exit "$missing"
