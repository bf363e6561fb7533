# The table of `compare.sh layers`, from lines "series,name,value".

{
  values[$1, $2, ++count[$1, $2]] = $3
  if ($2 ~ /^layer/ && !seen[$2]++) names[++number] = $2
}

# The smallest of what was measured, 0 when nothing was: a layer alone is short enough for some run of it to be undisturbed.
function least(series, name,    i, result) {
  for (i = 1; i <= count[series, name]; ++i)
    if (i == 1 || values[series, name, i] + 0 < result) result = values[series, name, i] + 0
  return result
}
function greatest(series, name,    i, result) {
  for (i = 1; i <= count[series, name]; ++i) if (values[series, name, i] + 0 > result) result = values[series, name, i] + 0
  return result
}
function milliseconds(value) { return value ? sprintf("%.3f", value) : "-" }

END {
  peak = greatest("lockstep", "peak")
  copy = least("lockstep", "memory")
  memory = copy ? least("lockstep", "bytes/memory") / copy * 1e3 : 0
  printf "Peak of one core: %.0f GFLOP/s; a copy in memory: %.1f GB/s. Times in ms, the minimum of all repetitions.\n", peak * 1e-9, memory * 1e-9
  print "The limit is the larger of two times: FLOP at the peak, and input and output read or written once at the speed of the copy.\n"
  print "| model/layer/pass | ours | oneDNN | ratio | ours, GFLOP/s | of peak | times the limit |"
  print "|---|---|---|---|---|---|---|"
  for (i = 1; i <= number; ++i) {
    name = names[i]
    own = least("lockstep", name)
    peer = least("oneDNN", name)
    flop = least("lockstep", "flop/" name)
    model = name
    sub(/^layer\//, "", model)
    limit = flop / peak * 1e3
    traffic = memory ? least("lockstep", "bytes/" name) / memory * 1e3 : 0
    if (traffic > limit) limit = traffic
    printf "| %s | %s | %s | %s | %s | %s | %s |\n", model, milliseconds(own), milliseconds(peer), own && peer ? sprintf("%.2f", own / peer) : "-",
           own && flop ? sprintf("%.0f", flop / own * 1e-6) : "-", own && flop ? sprintf("%.2f", flop / own * 1e3 / peak) : "-",
           own && limit ? sprintf("%.1f", own / limit) : "-"
    sub(/\/.*/, "", model)
    own_sum[model] += own
    peer_sum[model] += peer
    if (!(model in listed)) listed[model] = order[++models] = model
  }
  for (i = 1; i <= models; ++i)
    printf "| %s: sum | %.3f | %s | %s | | | |\n", order[i], own_sum[order[i]], milliseconds(peer_sum[order[i]]),
           own_sum[order[i]] && peer_sum[order[i]] ? sprintf("%.2f", own_sum[order[i]] / peer_sum[order[i]]) : "-"
}
