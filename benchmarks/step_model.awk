# awk -v cores=CORES -f step_model.awk RESULTS
#
# Predicts what an all-reduce and a training step take, from the time of a message (alpha), of a byte on the wire (beta) and of a
# byte that is added (gamma): Hockney's model, as in Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
# Operations in MPICH" (2005). benchmarks/README.md has the formulas. RESULTS has lines, of times in microseconds (of several, their
# median counts) and rates in Mbit/s, where 0 is unlimited:
#
#   sum BYTES TIME                        two threads add their arrays, half of them each
#   reduce HOSTS RATE BYTES TIME          an all-reduce of HOSTS processes over links of RATE
#   step HOSTS RATE BYTES TIME            a training step, which ends in one; that of 1 host is its computation
#   hosts WAY HOSTS RANKS RATE BYTES TIME an all-reduce of RANKS on each host, by WAY: tcp_neighbours, a ring of all ranks in which
#                                         neighbours on a host send through memory; two_levels, the threads of a process on each host
#                                         first; tcp, a ring of all ranks over TCP (measured, not predicted)
#
# CORES are those that all these hosts share. Prints what was measured beside what is predicted, and predictions of larger clusters,
# as Markdown tables. Without RESULTS, predictions alone, from what other machines take, in seconds (`host` and `gamma` for a byte,
# `compute` for a step's computation, BYTES the model's parameters; `pipe_alpha` and `pipe` for a message and a byte between neighbours
# on a host, `meeting` for threads that meet in an all-reduce; without these three, nothing about several ranks on a host):
#
#   awk -v alpha=S -v host=S -v gamma=S -v compute=S -v model_bytes=BYTES [-v pipe_alpha=S -v pipe=S -v meeting=S] -f step_model.awk \
#     </dev/null

function max(a, b) { return a > b ? a : b }
function min(a, b) { return a < b ? a : b }

# Seconds of an all-reduce of `bytes` on `n` hosts. `beta`: of the wire. `host`: seconds that a processor works for a byte that it
# sends while it receives another. `pack`: CommunicationOptions::bytes_per_pack, 0 for the library's own
# (RingEngine::pack_bytes). Of n ranks `together` are on each host, 1 if it is left out; neighbours there send through memory, for
# `pipe_alpha` a message and `pipe` a byte.
function reduction(n, bytes, alpha, beta, host, gamma, pack, together, pipe_alpha, pipe) {
  if (n == 1) return 0
  if (!together) together = 1
  if (bytes * n <= 512 * 1024 && (together == 1 || bytes * together * together <= 32 * 1024))
    return gathering(n, bytes, alpha, beta, host, gamma, together)
  return ring(n, bytes, alpha, beta, host, gamma, pack ? pack : min(max(bytes / (2 * n), 32 * 1024), 256 * 1024), together,
    pipe_alpha, pipe)
}

# Each rank fetches all arrays, 1, 2, 4... of them at a time, and adds them. Of the ranks of a host, `distance` fetch from another one,
# or all of them, over one link.
function gathering(n, bytes, alpha, beta, host, gamma, together, time, distance) {
  time = (n - 1) * bytes * gamma
  for (distance = 1; distance < n; distance *= 2)
    time += alpha + min(distance, n - distance) * bytes * max(min(distance, together) * beta, host)
  return time
}

# The threads of each host first, then one of them for all: each adds a share of their arrays, and copies the sums at the end, which
# takes no longer than to add them. `meeting`: of the threads, before and after.
function two_levels(hosts, together, bytes, alpha, beta, host, gamma, meeting, local_gamma) {
  return 2 * meeting + bytes * local_gamma * ((together - 1) / together + 1) + reduction(hosts, bytes, alpha, beta, host, gamma)
}

# Blocks of 256 KiB go round: block q leaves host q mod n, n - 1 hops add to it, n - 1 hops take it everywhere. A pack of `pack`
# bytes goes on when it has arrived and is added, a complete one while it arrives. A host sends the packs in the order in which they
# come to it, one at a time.
function ring(n, bytes, alpha, beta, host, gamma, pack, together, pipe_alpha, pipe, packs, hop, p, size, at, start, end, free, first,
  last, time, is_inside, delay, byte, busy) {
  packs = int((bytes + pack - 1) / pack)
  for (at = 0; at < n; ++at) free[at] = 0
  for (p = 0; p < packs; ++p) first[p] = last[p] = 0 # when the pack begins and ends to arrive at the host that is next
  for (hop = 0; hop < 2 * (n - 1); ++hop)
    for (p = 0; p < packs; ++p) {
      size = min(pack, bytes - p * pack)
      at = (int(p * pack / (256 * 1024)) + hop) % n
      is_inside = (at + 1) % together != 0
      delay = is_inside ? pipe_alpha : alpha
      busy = is_inside ? pipe : host
      byte = is_inside ? pipe : max(beta, host)
      start = max(free[at], first[p])
      end = max(start + size * byte, last[p])
      if (hop < n - 1) {
        free[at] = max(end, start + size * max(byte, busy + gamma))
        first[p] = last[p] = end + delay + size * gamma
      } else {
        free[at] = end
        first[p] = start + delay
        last[p] = end + delay
      }
      time = max(time, last[p])
    }
  return time
}

# Seconds of a byte, at a rate in Mbit/s, in frames of `frame` bytes of which 1448 are TCP's.
function wire(rate, frame) { return rate ? 8e-6 / rate * frame / 1448 : 0 }

function keep(key, time) {
  if (!(key in count)) keys[++rows] = key
  kept[key, ++count[key]] = time
}
function median(key, n, i, j, t, v) {
  n = count[key]
  if (!n) { print "step_model.awk: no measurement of '" key "'" >"/dev/stderr"; failed = 1; exit 1 }
  for (i = 1; i <= n; ++i) v[i] = kept[key, i]
  for (i = 2; i <= n; ++i) for (j = i; j > 1 && v[j - 1] > v[j]; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
  return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 * 1e-6
}

function size_of(bytes) {
  if (bytes < 1024) return bytes " bytes"
  return bytes < 1048576 ? bytes / 1024 " KiB" : sprintf("%.1f MB", bytes / 1e6)
}
function time_of(seconds) {
  return seconds < 1e-3 ? sprintf("%.0f us", seconds * 1e6) : sprintf("%.1f ms", seconds * 1e3)
}

{ key = $1; for (i = 2; i < NF; ++i) key = key " " $i; keep(key, $NF) }
$1 == "step" && $2 == 1 { model_bytes = $4 }

# Sets alpha, host, gamma and compute, and holds the model against the measurements.
function hold(row, share, beta, time, measured, good, held, cases) {
  gamma = median("sum " model_bytes) / (model_bytes / 2)
  alpha = median("reduce 2 0 64")
  host = (median("reduce 2 0 " model_bytes) - 2 * alpha - model_bytes / 2 * gamma) / model_bytes
  compute = median("step 1 0 " model_bytes)
  pipe_alpha = median("hosts tcp_neighbours 1 2 0 64")
  pipe = (median("hosts tcp_neighbours 1 2 0 " model_bytes) - 2 * pipe_alpha - model_bytes / 2 * gamma) / model_bytes
  meeting = median("sum 64")
  print "| | measured | by |"
  print "|---|---|---|"
  printf "| alpha, a message | %.1f us | 64 bytes on 2 hosts, no limit |\n", alpha * 1e6
  printf "| host, a byte that a processor sends while it receives one | %.3f ns | %s on 2 hosts, no limit |\n", host * 1e9,
    size_of(model_bytes)
  printf "| gamma, a byte that is added | %.3f ns | %s on 2 threads |\n", gamma * 1e9, size_of(model_bytes)
  printf "| the computation of a step | %.1f ms | 1 host |\n", compute * 1e3
  printf "| pipe_alpha, a message in memory | %.1f us | 64 bytes on 2 neighbours of a host |\n", pipe_alpha * 1e6
  printf "| pipe, a byte that is sent in memory while one is received | %.3f ns | %s on 2 neighbours of a host |\n", pipe * 1e9,
    size_of(model_bytes)
  printf "| meeting, of threads | %.1f us | 64 bytes on 2 threads |\n\n", meeting * 1e6
  for (row = 1; row <= rows; ++row) {
    $0 = keys[row]
    if ($1 == "sum" || $1 == "hosts" || $3 == 0) continue
    share = max(1, $2 / cores)
    beta = wire($3, 1514)
    time = reduction($2, $4, share * alpha, beta, share * host, share * gamma)
    if ($1 == "step") time += share * compute
    measured = median(keys[row])
    good = time >= 0.8 * measured && time <= 1.2 * measured
    held += good
    if (!cases++) {
      print "| hosts | link, Mbit/s | | measured | predicted | predicted / measured | within 20 % |"
      print "|---|---|---|---|---|---|---|"
    }
    printf "| %d | %d | %s | %s | %s | %.2f | %s |\n", $2, $3, $1 == "step" ? "step" : size_of($4), time_of(measured),
      time_of(time), time / measured, good ? "yes" : "NO"
  }
  if (cases) printf "\nwithin 20 %%: %d of %d\n\n", held, cases
  hold_hosts()
  print ""
}

# The same for several ranks on a host.
function hold_hosts(row, key, way, ranks, share, beta, time, flat, levels, levels_time, over_tcp, outside) {
  print "| hosts x ranks | link, Mbit/s | | all over TCP | ring with pipes | predicted | two levels | predicted | ring / two levels |"
  print "|---|---|---|---|---|---|---|---|---|"
  for (row = 1; row <= rows; ++row) {
    $0 = keys[row]
    if ($1 != "hosts" || $2 != "tcp_neighbours" || $5 == 0) continue
    ranks = $3 * $4
    share = max(1, ranks / cores)
    beta = wire($5, 1514)
    time = reduction(ranks, $6, share * alpha, beta, share * host, share * gamma, 0, $4, share * pipe_alpha, share * pipe)
    # (While one thread of each process is outside, the others wait.)
    outside = max(1, $3 / cores)
    levels_time = two_levels($3, $4, $6, outside * alpha, beta, outside * host, outside * gamma, share * meeting, share * gamma)
    key = $3 " " $4 " " $5 " " $6
    flat = median("hosts tcp_neighbours " key)
    levels = median("hosts two_levels " key)
    over_tcp = median("hosts tcp " key)
    printf "| %d x %d | %d | %s | %s | %s | %s (%.2f) | %s | %s (%.2f) | %.2f |\n", $3, $4, $5, size_of($6), time_of(over_tcp),
      time_of(flat), time_of(time), time / flat, time_of(levels), time_of(levels_time), levels_time / levels, flat / levels
  }
}

# What several ranks on a host take on 8 hosts: where each core reaches memory as if it were alone, and where all cores of a host share
# what one of them has. (Short arrays are in caches.)
function predict_hosts(hosts, together, sizes, rates, s, r, bytes, beta, crowd, times, ring_time, levels_time) {
  hosts = together = 8
  printf "\n| hosts x ranks | | link, Gbit/s | ring with pipes | two levels | ring / two levels | with one core\47s memory: ring with"
  print " pipes | two levels | ring / two levels |"
  print "|---|---|---|---|---|---|---|---|---|"
  split("64 16384 1048576 " model_bytes, sizes)
  split("10 25 100", rates)
  for (s = 1; s <= 4; ++s)
    for (r = 1; r <= 3; ++r) {
      bytes = sizes[s]
      beta = wire(rates[r] * 1000, 1538)
      printf "| %d x %d | %s | %d |", hosts, together, size_of(bytes), rates[r]
      for (crowd = 1; crowd <= together; crowd += together - 1) {
        times = bytes < 1048576 ? 1 : crowd
        ring_time = reduction(hosts * together, bytes, alpha, beta, host, times * gamma, 0, together, pipe_alpha, times * pipe)
        levels_time = two_levels(hosts, together, bytes, alpha, beta, host, gamma, meeting, times * gamma)
        printf " %s | %s | %.2f |", time_of(ring_time), time_of(levels_time), ring_time / levels_time
      }
      print ""
    }
}

END {
  if (failed) exit 1
  if (rows) hold()
  print "| hosts | link, Gbit/s | reduction | step | efficiency | with alpha = 50 us | with packs of 256 KiB |"
  print "|---|---|---|---|---|---|---|"
  split("8 64 512", hosts)
  split("10 25 100", rates)
  for (h = 1; h <= 3; ++h)
    for (r = 1; r <= 3; ++r) {
      beta = wire(rates[r] * 1000, 1538)
      time = reduction(hosts[h], model_bytes, alpha, beta, host, gamma)
      slower = reduction(hosts[h], model_bytes, 50e-6, beta, host, gamma)
      coarser = reduction(hosts[h], model_bytes, alpha, beta, host, gamma, 256 * 1024)
      printf "| %d | %d | %.1f ms | %.1f ms | %.2f | %.2f | %.2f |\n", hosts[h], rates[r], time * 1e3, (compute + time) * 1e3,
        compute / (compute + time), compute / (compute + slower), compute / (compute + coarser)
    }
  if (meeting) predict_hosts()
}
