# The table of `compare.sh all_reduce`, with compare_table.awk. Exit code as that of compare.sh.

# An all-reduce of lockstep's, name being RANKS/BYTES.
function reduction(label, policy, peers, name, target) {
  row(label, "lockstep " policy, name, peers, name, target)
}

# The time of a step alone over that of a step of two processes.
function efficiency(label, policy, target,    alone, alone_text) {
  if (look_at("lockstep step " policy, "1/64")) {
    alone = middle
    alone_text = "own process alone " text()
  }
  if (look_at("lockstep step " policy, "2/64"))
    print_row(label, text(), alone_text, alone / middle, target, "", 1)
  else
    print_row(label, "not measured", alone_text, 0, target, "", 1)
}

END {
  small = 1024
  large = 11 * 1024 * 1024
  huge = 64 * 1024 * 1024
  gloo = "gloo ring|gloo bcube"

  print_header("us")
  reduction("2 ranks TCP, 11 MiB: raw both-ways exchange", "tcp", "limit exchange", "2/" large, 1.20)
  reduction("2 ranks TCP, 11 MiB: best of gloo", "tcp", gloo, "2/" large, 0.65)
  reduction("2 ranks TCP, 11 MiB: OpenMPI TCP", "tcp", "OpenMPI tcp", "2/" large, 1.00)
  reduction("2 ranks TCP with TLS, 11 MiB: without TLS", "tcp_tls", "lockstep tcp", "2/" large, 2.50)
  reduction("2 ranks TCP, 64 MiB: best of gloo", "tcp", gloo, "2/" huge, 0.65)
  reduction("2 ranks TCP, 64 MiB: OpenMPI TCP", "tcp", "OpenMPI tcp", "2/" huge, 1.00)
  reduction("2 ranks TCP, 1 KiB: OpenMPI TCP", "tcp", "OpenMPI tcp", "2/" small, 1.2)
  reduction("2 ranks TCP, 1 KiB: best of gloo", "tcp", gloo, "2/" small, 0.10)
  reduction("4 ranks TCP, 11 MiB: best of gloo", "tcp", gloo, "4/" large, 0.90)
  reduction("4 ranks TCP, 11 MiB: OpenMPI TCP", "tcp", "OpenMPI tcp", "4/" large, 1.00)
  reduction("2 ranks shared memory, 1 KiB: OpenMPI shared memory", "shared_memory", "OpenMPI shared_memory", "2/" small, 1.5)
  reduction("2 ranks shared memory, 11 MiB: OpenMPI shared memory", "shared_memory", "OpenMPI shared_memory", "2/" large, 0.70)
  row("2 threads, 11 MiB: a += b on one core", "lockstep threads", "2/" large, "limit add", "1/" large, 0.80)
  row("tutorial CNN, 2 processes x 1 thread, TCP, step: PyTorch DDP with gloo", "lockstep step tcp", "2/64",
      "PyTorch DDP eager|PyTorch DDP channels_last", "2/64", 0.45)
  efficiency("the same: efficiency, TCP", "tcp", 0.60)
  efficiency("the same: efficiency, TCP with bfloat16 on the wire", "tcp_bfloat16", 0.72)
  efficiency("the same: efficiency, Auto on one host", "auto", 0.85)
  efficiency("the same: efficiency, TCP with sharded updates, SGD", "tcp_sharded", 0.70)
  efficiency("the same: efficiency, TCP with sharded updates, Adam", "tcp_sharded_adam", 0.70)
  efficiency("the same: efficiency, Auto with sharded updates, SGD", "auto_sharded", 0.85)
  efficiency("the same: efficiency, Auto with sharded updates, Adam", "auto_sharded_adam", 0.85)
  exit exit_code()
}
