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
#
# CORES are those that all these hosts share. Prints what was measured beside what is predicted, and predictions of larger clusters,
# as Markdown tables. Without RESULTS, predictions alone, from what other machines take, in seconds (`host` and `gamma` for a byte,
# `compute` for a step's computation, BYTES the model's parameters):
#
#   awk -v alpha=S -v host=S -v gamma=S -v compute=S -v model_bytes=BYTES -f step_model.awk </dev/null

function max(a, b) { return a > b ? a : b }
function min(a, b) { return a < b ? a : b }

# Seconds of an all-reduce of `bytes` on `n` hosts. `beta`: of the wire. `host`: seconds that a processor works for a byte that it
# sends while it receives another. `pack`: CommunicationOptions::bytes_per_pack, 0 for the library's own
# (RingEngine::pack_bytes).
function reduction(n, bytes, alpha, beta, host, gamma, pack) {
  if (n == 1) return 0
  if (bytes * n <= 512 * 1024) return gathering(n, bytes, alpha, max(beta, host), gamma)
  return ring(n, bytes, alpha, beta, host, gamma, pack ? pack : min(max(bytes / (2 * n), 32 * 1024), 256 * 1024))
}

# Each host fetches all arrays, 1, 2, 4... of them at a time, and adds them.
function gathering(n, bytes, alpha, beta, gamma, time, distance) {
  time = (n - 1) * bytes * gamma
  for (distance = 1; distance < n; distance *= 2) time += alpha + min(distance, n - distance) * bytes * beta
  return time
}

# Blocks of 256 KiB go round: block q leaves host q mod n, n - 1 hops add to it, n - 1 hops take it everywhere. A pack of `pack`
# bytes goes on when it has arrived and is added, a complete one while it arrives. A host sends the packs in the order in which they
# come to it, one at a time.
function ring(n, bytes, alpha, beta, host, gamma, pack, packs, hop, p, size, at, start, end, free, first, last, time) {
  packs = int((bytes + pack - 1) / pack)
  for (at = 0; at < n; ++at) free[at] = 0
  for (p = 0; p < packs; ++p) first[p] = last[p] = 0 # when the pack begins and ends to arrive at the host that is next
  for (hop = 0; hop < 2 * (n - 1); ++hop)
    for (p = 0; p < packs; ++p) {
      size = min(pack, bytes - p * pack)
      at = (int(p * pack / (256 * 1024)) + hop) % n
      start = max(free[at], first[p])
      end = max(start + size * max(beta, host), last[p])
      if (hop < n - 1) {
        free[at] = max(end, start + size * max(beta, host + gamma))
        first[p] = last[p] = end + alpha + size * gamma
      } else {
        free[at] = end
        first[p] = start + alpha
        last[p] = end + alpha
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
  print "| | measured | by |"
  print "|---|---|---|"
  printf "| alpha, a message | %.1f us | 64 bytes on 2 hosts, no limit |\n", alpha * 1e6
  printf "| host, a byte that a processor sends while it receives one | %.3f ns | %s on 2 hosts, no limit |\n", host * 1e9,
    size_of(model_bytes)
  printf "| gamma, a byte that is added | %.3f ns | %s on 2 threads |\n", gamma * 1e9, size_of(model_bytes)
  printf "| the computation of a step | %.1f ms | 1 host |\n", compute * 1e3

  print "\n| hosts | link, Mbit/s | | measured | predicted | predicted / measured | within 20 % |"
  print "|---|---|---|---|---|---|---|"
  for (row = 1; row <= rows; ++row) {
    $0 = keys[row]
    if ($1 == "sum" || $3 == 0) continue
    share = max(1, $2 / cores)
    beta = wire($3, 1514)
    time = reduction($2, $4, share * alpha, beta, share * host, share * gamma)
    if ($1 == "step") time += share * compute
    measured = median(keys[row])
    good = time >= 0.8 * measured && time <= 1.2 * measured
    held += good
    ++cases
    printf "| %d | %d | %s | %s | %s | %.2f | %s |\n", $2, $3, $1 == "step" ? "step" : size_of($4), time_of(measured),
      time_of(time), time / measured, good ? "yes" : "NO"
  }
  printf "\nwithin 20 %%: %d of %d\n\n", held, cases
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
}
