#!/usr/bin/env bash
# What it is worth not to wait: the tutorial's CNN on MNIST by two workers in step, and by two
# workers with a parameter server, five seeds each: the test accuracy, and how long a step of the
# first worker takes when the second one is five times slower (it sleeps).
#
#   benchmarks/parameter_servers.sh MNIST_FOLDER ["SEEDS"]       default: 1 2 3 4 5
#
# Run `cmake --preset release` before.
set -euo pipefail
folder=$(realpath "${1:?usage: benchmarks/parameter_servers.sh MNIST_FOLDER [SEEDS]}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seeds=${2:-1 2 3 4 5}
cmake --build build/release --target benchmark_parameter_servers >&2
program=build/release/benchmarks/benchmark_parameter_servers

# Prints what worker 0 says.
job() { # mirrored|servers SEED SLOWER
  local port=$((20000 + RANDOM % 10000)) tasks=("worker 0" "worker 1") pids=() task
  local cluster="\"worker\": [\"127.0.0.1:$port\", \"127.0.0.1:$((port + 1))\"]"
  if [[ $1 == servers ]]; then
    cluster+=", \"ps\": [\"127.0.0.1:$((port + 2))\"]"
    tasks+=("ps 0")
  fi
  for task in "${tasks[@]}"; do
    TF_CONFIG="{\"cluster\": {$cluster}, \"task\": {\"type\": \"${task% *}\", \"index\": ${task#* }}}" \
      "$program" "$folder" "$@" 2>/dev/null &
    pids+=($!)
  done
  wait "${pids[@]}"
}

range() { sort -g | awk '{ values[NR] = $1 } END { printf "%s (%s to %s)", values[int((NR + 1) / 2)], values[1], values[NR] }'; }

echo '| two workers | test accuracy | ms a step | with a slow second worker |'
echo '|---|---|---|---|'
for way in mirrored servers; do
  [[ $way == servers ]] && name='with a server (`ParameterServerStrategy`)' || name='in step (`MultiWorkerMirroredStrategy`)'
  even=() slow=()
  for seed in $seeds; do
    even+=("$(job $way "$seed" 1)")
    slow+=("$(job $way "$seed" 5)")
  done
  echo "| $name | $(printf '%s\n' "${even[@]}" | cut -d' ' -f2 | range) | $(printf '%s\n' "${even[@]}" | cut -d' ' -f1 | range) |" \
    "$(printf '%s\n' "${slow[@]}" | cut -d' ' -f1 | range) |"
done
