#!/usr/bin/env bash
# What the example programs reach, as Markdown tables: the GPT on a text, ResNet-20 on CIFAR-10's
# binary files, and the others, which make their own data.
#
#   benchmarks/model_accuracy.sh gpt TEXT_FILE | resnet CIFAR_FOLDER | NAME [SEEDS]
#
# NAME is text, tabular, lora, seq2seq, vae, diffusion or reinforce.
# SEEDS are "1 2 3 4 5" unless told otherwise.
#
# ResNet-20 is trained for 30 epochs (--epochs of the program: 180). Run `cmake --preset release`
# before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
(($#)) || usage
model=$1 options=()
shift
case $model in
  gpt | resnet)
    (($#)) && [[ -e $1 ]] || usage
    [[ $model == gpt ]] && options=(--text "$1") || options=(--data "$1" --epochs 30)
    shift
    ;;
  text | tabular | lora | seq2seq | vae | diffusion | reinforce) ;;
  *) usage ;;
esac
seeds=${1:-1 2 3 4 5}
program=build/release/examples/$model
cmake --build build/release --target "$model" >&2

# A line for each seed, of the program's last one.
train() { # NAME OPTION...
  local name=$1 seed last
  shift
  for seed in $seeds; do
    last=$("$program" "${options[@]}" "$@" --seed "$seed" --verbose 0 | sed -n 's/^\(\[worker 0\] \)\{0,1\}final: //p')
    echo "| $name, seed $seed | $last |"
  done
}

echo '| run | final |'
echo '|---|---|'
case $model in
  gpt) for workers in 1 2 4; do train "$workers worker(s)" --workers "$workers"; done ;;
  text) for name in lstm attention; do train "$name" --model "$name"; done ;;
  *) train 'one worker' ;;
esac
