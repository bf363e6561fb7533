#!/usr/bin/env bash
# What a step takes on more hosts than there are here: measures what a message, a byte and an
# addition cost, holds what step_model.awk predicts from them against 2, 4 and 8 network namespaces
# on a bridge, each with a link of a limited rate, and prints its predictions for 8, 64 and 512
# hosts, all as Markdown tables. Needs root or user namespaces, ip and tc (iproute2); without them
# it says so and ends with 77.
#
#   benchmarks/step_model.sh [--ranks-on-hosts] [ROUNDS [RATE...]]
#
# Makes 1 round, at 200, 500 and 1000 Mbit/s, unless told otherwise.
#
# Steps are measured at the last rate only. Then 2 hosts with 2 ranks on each: all ranks in one
# ring, which sends over TCP or between neighbours in memory, beside threads of one process on each
# host; --ranks-on-hosts measures these alone. A round takes six minutes on two cores, or two, and
# nothing else should run. Run `cmake --preset release` before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all_arguments=("$@")
one_rank_hosts=(2 4 8)
if [[ ${1:-} == --ranks-on-hosts ]]; then
  one_rank_hosts=()
  shift
fi
rounds=${1:-1}
rates=("${@:2}")
((${#rates[@]})) || rates=(200 500 1000)
for argument in "$rounds" "${rates[@]}"; do
  [[ $argument =~ ^[1-9][0-9]*$ ]] || { echo "usage: benchmarks/step_model.sh [--ranks-on-hosts] [ROUNDS [RATE...]]" >&2; exit 2; }
done
programs=build/release/benchmarks
say() { echo "step_model.sh: $*" >&2; }

# All of it runs in a network, a process space and a view of the files of its own, which end with
# it, and all that is in them.
if [[ ${LOCKSTEP_STEP_MODEL:-} != inside ]]; then
  as_root=()
  ((EUID == 0)) || as_root=(--map-root-user)
  apart=(unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc)
  # shellcheck disable=SC2016
  "${apart[@]}" bash -c 'mount -t tmpfs tmpfs /run && ip netns add host && ip link add bridge0 type bridge &&
    ip link add link0 type veth peer name eth0 netns host &&
    tc -n host qdisc add dev eth0 root tbf rate 10mbit burst 16kb latency 50ms' >/dev/null 2>&1 ||
    { say "SKIPPED: cannot make networks with limited links (unshare, ip netns, bridge, veth, tbf)"; exit 77; }
  cmake --build build/release --target benchmark_all_reduce benchmark_worker_steps >&2
  LOCKSTEP_STEP_MODEL=inside exec "${apart[@]}" bash "benchmarks/${BASH_SOURCE[0]##*/}" "${all_arguments[@]}"
fi

most_hosts=8
mount -t tmpfs tmpfs /run
ip link add bridge0 type bridge
ip link set bridge0 up
ip link set lo up
for ((i = 1; i <= most_hosts; ++i)); do
  ip netns add host$i
  ip link add link$i type veth peer name eth0 netns host$i
  ip link set link$i master bridge0 up
  ip -n host$i address add 10.0.0.$i/24 dev eth0
  ip -n host$i link set lo up
  ip -n host$i link set eth0 up
  nsenter --net=/run/netns/host$i sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control' 2>/dev/null || true
done
limit() { # RATE, in Mbit/s; 0: none
  for ((i = 1; i <= most_hosts; ++i)); do
    # With a limit few bytes at a time, so that little of a block may leave faster than the link is.
    ip -n host$i link set eth0 gso_max_size $(($1 ? 16000 : 65536))
    if (($1)); then
      tc -n host$i qdisc replace dev eth0 root tbf rate "$1mbit" burst 16kb limit 4mb
    else
      tc -n host$i qdisc replace dev eth0 root pfifo
    fi
  done
}

# Runs a command as so many processes on each host; prints what the first one says.
on_hosts() { # HOSTS PROCESSES COMMAND...
  local hosts=$1 each=$2 i place workers='' processes=()
  shift 2
  for ((i = 0; i < hosts * each; ++i)); do workers+=", \"10.0.0.$((i / each + 1)):$((29870 + i % each))\""; done
  for ((i = hosts * each - 1; i >= 0; --i)); do
    place=host$((i / each + 1))
    TF_CONFIG="{\"cluster\": {\"worker\": [${workers:2}]}, \"task\": {\"type\": \"worker\", \"index\": $i}}" \
      nsenter --net=/run/netns/$place "$@" >/run/output$i 2>/run/errors$i &
    processes+=($!)
  done
  for i in "${processes[@]}"; do
    wait "$i" || { say "failed: $*"; cat /run/errors* >&2; exit 1; }
  done
  cat /run/output0
}
results=/run/results
keep() { awk -v key="$*" '{ print key, $2, $3 }' >>$results; } # KEY...; reads lines "NAME SIZE MEDIAN ..."

numbers=64
gathered=$((16 * 1024))
block=$((256 * 1024)) # the ring's unit: one that goes round alone, as on hosts that are more than the blocks of a model
model=$((2770634 * 4)) # the tutorial's CNN, which benchmark_worker_steps trains
reduce() { # HOSTS RATE BYTES...
  on_hosts "$1" 1 $programs/benchmark_all_reduce --policy tcp --ranks "$1" --repetitions 1 --bytes "${@:3}" | keep reduce "$1" "$2"
}
step() { # HOSTS RATE
  on_hosts "$1" 1 $programs/benchmark_worker_steps --policy tcp --ranks "$1" --repetitions 1 |
    awk -v bytes=$model '{ $2 = bytes; print }' | keep step "$1" "$2"
}
megabyte=$((1 << 20))
reduce_on() { # WAY HOSTS RANKS RATE BYTES...; of two levels, the ranks of a host are threads
  local each=$3
  [[ $1 != two_levels ]] || each=1
  on_hosts "$2" "$each" $programs/benchmark_all_reduce --policy "$1" --ranks $(($2 * $3)) --repetitions 1 --bytes "${@:5}" |
    keep hosts "$1" "$2" "$3" "$4"
}
for ((round = 1; round <= rounds; ++round)); do
  say "round $round of $rounds: without a limit"
  limit 0
  $programs/benchmark_all_reduce --policy threads --ranks 2 --repetitions 1 --bytes $numbers $model | keep sum
  step 1 0
  reduce 2 0 $numbers $model
  reduce_on tcp_neighbours 1 2 0 $numbers $model
  for rate in "${rates[@]}"; do
    say "round $round of $rounds: $rate Mbit/s"
    limit "$rate"
    for hosts in "${one_rank_hosts[@]}"; do
      reduce "$hosts" "$rate" $numbers $gathered $block $model
    done
    for way in tcp tcp_neighbours two_levels; do
      reduce_on $way 2 2 "$rate" $numbers $gathered $megabyte $model
    done
  done
  ((${#one_rank_hosts[@]} == 0)) || say "round $round of $rounds: steps at $rate Mbit/s"
  for hosts in "${one_rank_hosts[@]}"; do
    step "$hosts" "$rate"
  done
done
awk -v cores="$(nproc)" -f benchmarks/step_model.awk $results
