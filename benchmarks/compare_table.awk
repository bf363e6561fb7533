# What the tables of compare.sh share: lines "series,name,value", several of each, with ",disturbed" when other programs ran during the
# measurement; rows of two of them with their ratio. -v isa=NAME: a column of it; -v against=FILE: an earlier table, whose rows of
# the same name and instruction set stand beside these.

BEGIN {
  while (against != "" && (getline line < against) > 0) {
    split(line, cell, / *[|] */) # the first one is empty
    if (isa == "") earlier[cell[2]] = cell[3] + 0
    else earlier[cell[2], cell[3]] = cell[4] + 0
  }
}

{
  values[$1, $2, ++count[$1, $2]] = $3
  if ($4) disturbed[$1, $2] = 1
  present[$1 ~ /^PyTorch/ ? "PyTorch" : $1] = 1
}

# Sorts what was measured for the row that is to be printed; afterwards low, middle and high are set. Returns whether there is
# anything.
function look_at(series, name,    n, i, j, value) {
  n = count[series, name]
  if (!n) return 0
  if ((series, name) in disturbed) disturbed_row = 1
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

# What the best of several series, separated by "|", took; sets best and best_text.
function find_best(list, name,    series, n, i) {
  best = 0
  best_text = ""
  n = split(list, series, "|")
  for (i = 1; i <= n; ++i) {
    if (!look_at(series[i], name)) continue
    if (best == 0 || middle < best) {
      best = middle
      best_text = series[i] " " text()
    }
  }
}

function print_header(unit,    set, before) {
  set = isa == "" ? "" : " instruction set |"
  before = against == "" ? "" : " earlier | ours : earlier |"
  printf "| row |%s ours, %s | peer, %s | ratio | target | holds |%s\n", set, unit, unit, before
  printf "|---|%s---|---|---|---|---|%s\n", isa == "" ? "" : "---|", against == "" ? "" : "---|---|"
}

# What an earlier table has of a row, and the ratio to it.
function beside_earlier(label, ours,    former) {
  if (against == "") return ""
  former = isa == "" ? earlier[label] : earlier[label, isa]
  return former && ours + 0 ? sprintf(" %.2f | %.2f |", former, (ours + 0) / former) : " - | - |"
}

# Holds when the ratio is at most the target, or at least, when `at_least` is set. Without a target the row only shows the ratio.
function print_row(label, ours, peer, ratio, target, missing, at_least,    holds) {
  if (ratio == 0) holds = "not measured"
  else if (disturbed_row) holds = "not measured: other programs ran"
  else if (target == "") holds = "-"
  else if (at_least ? ratio < target : ratio > target) holds = "NO"
  else holds = missing ? "not measured: " missing : "yes"
  if (holds == "NO") short = 1
  if (holds ~ /^not/) unmeasured = 1
  printf "| %s |%s %s | %s | %s | %s | %s |%s\n", label, isa == "" ? "" : " " isa " |", ours, peer,
         ratio ? sprintf("%.2f", ratio) : "-", target == "" ? "none" : sprintf("%s%.2f", at_least ? "at least " : "", target), holds,
         beside_earlier(label, ours)
  disturbed_row = 0
}

# own_series and own_name against the best of the series in `list` (separated by "|") and name; `needed`: the peers without which
# the row cannot hold.
function row(label, own_series, own_name, list, name, target, needed,    ours, own, missing, n, i, wanted) {
  if (!look_at(own_series, own_name)) {
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

# Own time on one thread against that of its products alone, at the peak that was measured.
function limit_row(title, name, target,    flop, limit, limit_text) {
  flop = look_at("lockstep", "flop/" name) ? middle : 0
  if (look_at("lockstep", "peak")) {
    limit = flop / middle * 1e3
    limit_text = sprintf("%.2f (%.2f to %.2f), at %.0f GFLOP/s", limit, flop / high * 1e3, flop / low * 1e3, middle * 1e-9)
  }
  if (look_at("lockstep", name))
    print_row(title ", 1 thread: FLOP / measured FMA peak", text(), limit_text, limit ? middle / limit : 0, target)
}

function exit_code() { return short ? 1 : unmeasured ? 3 : 0 }
