#!/usr/bin/env bash
# What it is worth to communicate less often: the character model of examples/gpt.cpp on two
# workers, over loopback interfaces of several speeds, in step and by DiLoCo with rounds of 50
# steps, as a Markdown table. Both directions share the speed. Needs root or user namespaces, and tc
# (iproute2); without them it says so and ends with 77.
#
#   benchmarks/diloco.sh TEXT [ITERATIONS [RATE...]]        default: 500 iterations, 2gbit 200mbit
#
# Run `cmake --preset release` before.
set -euo pipefail
text=$(realpath "${1:?usage: benchmarks/diloco.sh TEXT [ITERATIONS [RATE...]]}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
iterations=${2:-500}
[[ $iterations =~ ^[1-9][0-9]*$ ]] || { echo "diloco.sh: the number of iterations is '$iterations'" >&2; exit 2; }
rates=("${@:3}")
((${#rates[@]})) || rates=(2gbit 200mbit)

as_root=()
((EUID == 0)) || as_root=(--map-root-user)
# shellcheck disable=SC2016
on_wire() { # RATE COMMAND...
  unshare "${as_root[@]}" --net sh -c 'ip link set lo up &&
    tc qdisc add dev lo root tbf rate "$0" burst 256kb latency 50ms && exec "$@"' "$@"
}
# A process space of its own for each worker, so that they do not share memory.
on_wire 2gbit unshare --pid --fork --mount-proc true 2>/dev/null ||
  { echo "diloco.sh: SKIPPED: cannot make a network with a limited loopback interface, or a process space" >&2; exit 77; }

cmake --build build/release --target gpt >&2
program=$PWD/build/release/examples/gpt

# Runs a command as two workers; prints what the first one says at its end.
# shellcheck disable=SC2016
two_workers='
worker() {
  local index=$1
  shift
  local workers="[\"127.0.0.1:29870\", \"127.0.0.1:29871\"]"
  TF_CONFIG="{\"cluster\": {\"worker\": $workers}, \"task\": {\"type\": \"worker\", \"index\": $index}}" \
    unshare --pid --fork --kill-child --mount-proc "$@"
}
worker 1 "$@" >/dev/null 2>&1 &
worker 0 "$@" 2>/dev/null | grep "^final: "
wait'

echo '| loopback | | seconds | val_loss |'
echo '|---|---|---|---|'
for rate in "${rates[@]}"; do
  for rounds in 0 50; do
    begin=$EPOCHREALTIME
    last=$(on_wire "$rate" bash -c "$two_workers" two_workers "$program" --text "$text" --verbose 0 --iterations "$iterations" \
      --diloco $rounds)
    awk -v rate="$rate" -v rounds=$rounds -v begin="$begin" -v end="$EPOCHREALTIME" -v last="$last" 'BEGIN {
      sub(/.*val_loss=/, "", last); sub(/ .*/, "", last)
      printf "| %s | %s | %.1f | %s |\n", rate, rounds ? "DiLoCo, rounds of " rounds " steps" : "in step", end - begin, last }'
  done
done
