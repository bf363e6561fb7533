# awk -v most=<number> -f precompiled.awk <header>...
#
# To check that each header compiles alone takes less time when what many of them include is
# precompiled. A header may follow a precompiled one that it includes itself, directly or through
# others: as that one is checked, too, nothing is there that only the one in question forgot.
# Chooses up to `most` headers to precompile, and prints a line for each header that follows one:
#
#   <header> <precompiled header>
#
# The headers' names begin with lockstep/, and awk runs in the folder that they are in.

# Notes all that `header` includes, itself or through others, as included by `by`.
function note_includes(by, header,    i, count, includes) {
  count = split(direct[header], includes, "\n")
  for (i = 1; i < count; ++i)
    if (!((by, includes[i]) in has)) {
      has[by, includes[i]] = 1
      closure[by] = closure[by] includes[i] "\n"
      # A header of the standard library or of another takes as long as several of ours.
      weight[by] += includes[i] ~ /^</ ? 5 : 1
      note_includes(by, includes[i])
    }
}

FNR == 1 {
  headers[++header_count] = FILENAME
  depth = 0
}
/^# *if/ { ++depth }
/^# *endif/ { --depth }
depth == 0 && /^#include .*["<]/ && !/\.ipp"/ {
  include = $2
  gsub("\"", "", include)
  direct[FILENAME] = direct[FILENAME] include "\n"
}

END {
  for (h = 1; h <= header_count; ++h) note_includes(headers[h], headers[h])
  for (round = 1; round <= most; ++round) {
    best = 0
    for (h = 1; h <= header_count; ++h) gain[headers[h]] = -weight[headers[h]]
    for (h = 1; h <= header_count; ++h) {
      header = headers[h]
      count = split(closure[header], includes, "\n")
      for (i = 1; i < count; ++i)
        if (weight[includes[i]] > spared[header]) gain[includes[i]] += weight[includes[i]] - spared[header]
    }
    for (h = 1; h <= header_count; ++h)
      if (gain[headers[h]] > best) {
        best = gain[headers[h]]
        chosen = headers[h]
      }
    if (best == 0) break
    for (h = 1; h <= header_count; ++h)
      if ((headers[h], chosen) in has && weight[chosen] > spared[headers[h]]) {
        spared[headers[h]] = weight[chosen]
        follows[headers[h]] = chosen
      }
  }
  for (h = 1; h <= header_count; ++h)
    if (headers[h] in follows) print headers[h], follows[headers[h]]
}
