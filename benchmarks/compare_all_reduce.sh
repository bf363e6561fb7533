# `compare.sh all_reduce`, which sources this.

mib=$((1 << 20))

# --- build ----------------------------------------------------------------------------------------

build $own '' benchmark_all_reduce benchmark_worker_steps benchmark_limits
installed() { # PEER
  # CMake finds any MPI library, but the options below are this one's.
  [[ $1 != openmpi || $(mpirun --version 2>/dev/null) == *'Open MPI'* ]] && offers $own "benchmark_$1"
}
for peer in gloo openmpi; do
  ((with[$peer])) || continue
  if installed $peer; then
    build $own '' benchmark_$peer
  else
    with[$peer]=0
    say "NOT MEASURED: $peer, which is not installed (benchmarks/peers/setup.sh)"
  fi
done

# With --congestion-control commands run in a network of their own.
setting=/proc/sys/net/ipv4/tcp_congestion_control
if [[ -n $congestion_control ]]; then
  as_root=()
  ((EUID == 0)) || as_root=(--map-root-user)
  network=(unshare "${as_root[@]}" --net sh -c 'ip link set lo up && printf %s "$0" >'$setting' && exec "$@"' "$congestion_control")
  "${network[@]}" true || fail "cannot make a network with congestion control $congestion_control; allowed: $(
    cat /proc/sys/net/ipv4/tcp_allowed_congestion_control)"
fi

# --- measure --------------------------------------------------------------------------------------

: >"$results" # values are microseconds; names RANKS/BYTES, or PROCESSES/SAMPLES for steps

measure() { undisturbed collect "$@"; } # SERIES COMMAND...

programs=$own/benchmarks
ours() { # POLICY RANKS BYTES...
  measure lockstep "$programs/benchmark_all_reduce" --policy "$1" --ranks "$2" --bytes "${@:3}"
}
steps() { # POLICY PROCESSES
  measure 'lockstep step' "$programs/benchmark_worker_steps" --policy "$1" --ranks "$2"
}
gloo() { # ALGORITHM RANKS BYTES...
  ((with[gloo])) || return 0
  measure gloo "$programs/benchmark_gloo" --policy "$1" --ranks "$2" --bytes "${@:3}"
}
openmpi() { # NAME COMPONENT RANKS BYTES...
  ((with[openmpi])) || return 0
  measure OpenMPI mpirun --allow-run-as-root --oversubscribe -n "$3" --mca pml ob1 --mca btl "$2,self" --mca btl_tcp_if_include lo \
    --mca oob_tcp_if_include lo "$programs/benchmark_openmpi" --policy "$1" --ranks "$3" --bytes "${@:4}"
}

for ((round = 1; round <= rounds; ++round)); do
  say "round $round of $rounds"
  ours tcp 2 1024 $((11 * mib)) $((64 * mib))
  measure limit "$programs/benchmark_limits" --policy exchange --bytes $((11 * mib))
  [[ $(ldd "$programs/benchmark_all_reduce") != *libssl* ]] || ours tcp_tls 2 $((11 * mib))
  openmpi tcp tcp 2 1024 $((11 * mib)) $((64 * mib))
  gloo ring 2 1024 $((11 * mib)) $((64 * mib))
  gloo bcube 2 1024 $((11 * mib)) $((64 * mib))

  ours tcp 4 $((11 * mib))
  openmpi tcp tcp 4 $((11 * mib))
  gloo ring 4 $((11 * mib))
  gloo bcube 4 $((11 * mib))

  ours shared_memory 2 1024 $((11 * mib))
  openmpi shared_memory vader 2 1024 $((11 * mib))

  ours threads 2 $((11 * mib))
  measure limit "$programs/benchmark_limits" --policy add --ranks 1 --bytes $((11 * mib))

  for policy in tcp tcp_bfloat16 auto {tcp,auto}_sharded{,_adam}; do
    steps "$policy" 1
    steps "$policy" 2
  done
  ((with[torch] == 0)) ||
    measure 'PyTorch DDP' "${python_environment[@]}" OMP_NUM_THREADS=1 "$torch_python" benchmarks/peers/torch_ddp.py --processes 2
done

# --- report ---------------------------------------------------------------------------------------

describe_machine ''
echo "Congestion control: $("${network[@]}" cat $setting); connections over the loopback interface"
version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo '(version unknown)'; } # PACKAGE
((with[gloo] == 0)) || echo "gloo $(version libgloo-dev)"
((with[openmpi] == 0)) || mpirun --version | sed -n 's/mpirun (Open MPI)/OpenMPI/p'
((with[torch] == 0)) || echo "PyTorch $("$torch_python" -c 'import torch; print(torch.__version__)') with its own gloo"
echo "$rounds rounds of 3 repetitions"
((disturbed == 0)) || echo "OTHER PROGRAMS RAN during $disturbed measurements, which therefore do not count"
echo
awk -F, -v against="$against" -f benchmarks/compare_table.awk -f benchmarks/compare_all_reduce.awk "$results"
