#!/usr/bin/env bash
# What it is worth to reduce gradients while backward computes others: steps of an MLP on two
# processes, over loopback interfaces of several speeds, as a Markdown table. Both directions share
# the speed. Needs root or user namespaces, and tc (iproute2).
#
#   benchmarks/overlap.sh [ROUNDS]        default: 3
#
# Run `cmake --preset release` before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${1:-3}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "usage: benchmarks/overlap.sh [ROUNDS]" >&2; exit 2; }
cmake --build build/release --target benchmark_overlap >&2
program=build/release/benchmarks/benchmark_overlap

as_root=()
((EUID == 0)) || as_root=(--map-root-user)
on_wire() { # RATE COMMAND...
  unshare "${as_root[@]}" --net sh -c 'ip link set lo up && { [ "$0" = unlimited ] ||
    tc qdisc add dev lo root tbf rate "$0" burst 2mb latency 50ms; } && exec "$@"' "$@"
}
on_wire 10gbit true || { echo "overlap.sh: cannot make a network with a limited loopback interface" >&2; exit 2; }

results=$(mktemp)
trap 'rm -f "$results"' EXIT
rates=(unlimited 20gbit 10gbit 5gbit)
for ((round = 1; round <= rounds; ++round)); do
  for rate in "${rates[@]}"; do
    for overlap in off on; do
      on_wire $rate "$program" --policy $overlap --ranks 2 --repetitions 1 2>/dev/null |
        awk -v rate=$rate -v overlap=$overlap '{ print rate, overlap, $(NF - 2) / 1000 }' >>"$results"
    done
  done
done

median() { # RATE OVERLAP
  awk -v rate="$1" -v overlap="$2" '$1 == rate && $2 == overlap { print $3 }' "$results" | sort -g |
    awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
echo '| loopback | off, ms a step | on | on / off |'
echo '|---|---|---|---|'
for rate in "${rates[@]}"; do
  awk -v rate=$rate -v off="$(median $rate off)" -v on="$(median $rate on)" 'BEGIN {
    printf "| %s | %.1f | %.1f | %.2f |\n", rate, off, on, on / off }'
done
