# The table of `compare.sh step`, from lines "series,name,value"; `disturbed` is above 0 when what was measured on 2 threads does
# not count. Exit code as that of compare.sh.

{ values[$1, $2, ++count[$1, $2]] = $3 }

# Sorts what was measured; afterwards low, middle and high are set. Returns whether there is anything.
function look_at(series, name,    n, i, j, value) {
  n = count[series, name]
  if (!n) return 0
  for (i = 2; i <= n; ++i) {
    value = values[series, name, i]
    for (j = i - 1; j > 0 && values[series, name, j] + 0 > value + 0; --j) values[series, name, j + 1] = values[series, name, j]
    values[series, name, j + 1] = value
  }
  low = values[series, name, 1]
  high = values[series, name, n]
  middle = (values[series, name, int((n + 1) / 2)] + values[series, name, int((n + 2) / 2)]) / 2
  return 1
}

function text() { return sprintf("%.2f (%.2f to %.2f)", middle, low, high) }

# What the best of several series, separated by "|", took; sets best, best_text and absent.
function find_best(list, name,    series, n, i) {
  best = 0
  best_text = absent = ""
  n = split(list, series, "|")
  for (i = 1; i <= n; ++i) {
    if (!look_at(series[i], name)) continue
    if (best == 0 || middle < best) {
      best = middle
      best_text = series[i] " " text()
    }
  }
}

function print_row(label, ours, peer, ratio, target, missing,    holds) {
  if (ratio == 0) holds = "not measured"
  else if (disturbed && label ~ /2 threads/) holds = "not measured: other programs ran"
  else if (ratio > target) holds = "NO"
  else holds = missing ? "not measured: " missing : "yes"
  if (holds == "NO") short = 1
  if (holds ~ /^not/) unmeasured = 1
  printf "| %s | %s | %s | %s | %.2f | %s |\n", label, ours, peer, ratio ? sprintf("%.2f", ratio) : "-", target, holds
}

function row(label, own_name, list, name, target, needed,    ours, own, missing, n, i, wanted) {
  if (!look_at("lockstep", own_name)) {
    print_row(label, "not measured", "", 0, target)
    return
  }
  own = middle
  ours = text()
  find_best(list, name)
  n = split(needed, wanted, "|")
  for (i = 1; i <= n; ++i) if (!present[wanted[i]]) missing = missing (missing ? ", " : "") wanted[i]
  print_row(label, ours, best ? best_text : "not measured", best ? own / best : 0, target, missing)
}

END {
  for (key in count) {
    split(key, part, SUBSEP)
    present[part[1] ~ /^PyTorch/ ? "PyTorch" : part[1]] = 1
  }
  torch = "PyTorch eager|PyTorch channels_last|PyTorch compile"
  python = torch "|TensorFlow function|TensorFlow xla"
  title["cnn"] = "tutorial CNN"
  title["mlp"] = "MLP"
  title["cifar"] = "CIFAR CNN"

  print "| row | ours, ms | peer, ms | ratio | target | holds |"
  print "|---|---|---|---|---|---|"
  row("tutorial CNN, 1 thread: oneDNN", "step/cnn/1", "oneDNN", "step/cnn/1", 0.90, "oneDNN")
  row("tutorial CNN, 1 thread: best of PyTorch and TensorFlow", "step/cnn/1", python, "step/cnn/1", 0.45, "PyTorch")

  flop = look_at("lockstep", "flop/step/cnn/1") ? middle : 0
  if (look_at("lockstep", "peak")) {
    limit = flop / middle * 1e3
    limit_text = sprintf("%.2f (%.2f to %.2f), at %.0f GFLOP/s", limit, flop / high * 1e3, flop / low * 1e3, middle * 1e-9)
  }
  if (look_at("lockstep", "step/cnn/1"))
    print_row("tutorial CNN, 1 thread: FLOP / measured FMA peak", text(), limit_text, limit ? middle / limit : 0, 1.75)

  row("tutorial CNN, 2 threads: own 1 thread", "step/cnn/2", "lockstep", "step/cnn/1", 0.60)
  for (m = split("mlp cifar", models, " "); m > 0; --m)
    for (threads = 1; threads <= 2; ++threads) {
      name = "step/" models[3 - m] "/" threads
      row(title[models[3 - m]] ", " threads " thread" (threads > 1 ? "s" : "") ": best of oneDNN, PyTorch and TensorFlow", name, "oneDNN|" python, name, 1.00,
          "oneDNN|PyTorch")
    }
  for (m = split("cnn mlp cifar", models, " "); m > 0; --m) {
    name = "step/" models[4 - m] "/1"
    row("generic build, " title[models[4 - m]] ", 1 thread: -march=native build", name, "native", name, 1.10, "native")
  }
  exit short ? 1 : unmeasured ? 3 : 0
}
