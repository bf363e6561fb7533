# awk -v picture=NAME -f draw.awk FILE >NAME.svg
#
# The pictures of the documents, as SVG: two workers in lockstep, a ring's all-reduce, the arena of
# the tutorial's model; of FILE history.csv the losses that CSVLogger has written, and of
# tests/architecture/folders.txt the rooms. The target `pictures` draws all; tests compare.

function text(x, y, anchor, words) {
  printf "<text x=\"%g\" y=\"%g\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words
}

function box(x, y, width, colour, words) {
  printf "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"34\" rx=\"4\" fill=\"%s\"/>\n", x, y, width, colour
  text(x + width / 2, y + 22, "middle", words)
}

function arrow(x1, y1, x2, y2) {
  printf "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#444\" stroke-width=\"1.5\" marker-end=\"url(#head)\"/>\n", x1, y1, x2, y2
}

function begin(width, height) {
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n", width, height
  print "<defs><marker id=\"head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#444\"/></marker></defs>"
  printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height
}

function workers(step, worker, x, y) {
  begin(760, 190)
  text(14, 62, "start", "worker 0")
  text(14, 152, "start", "worker 1")
  for (step = 0; step < 2; ++step) {
    x = 90 + 335 * step
    text(x + 160, 20, "middle", "step " step + 1 ": a batch of 128 samples")
    for (worker = 0; worker < 2; ++worker) {
      y = 40 + 90 * worker
      box(x, y, 66, "#cfe3ff", worker == 0 ? "0 - 63" : "64 - 127")
      box(x + 74, y, 86, "#d8f0d2", "gradients")
      box(x + 238, y, 80, "#ffe3b8", "update")
      arrow(x + 160, y + 17, x + 172, y + 17)
      arrow(x + 226, y + 17, x + 237, y + 17)
    }
    box(x + 173, 85, 53, "#f3c9d3", "sum")
    printf "<rect x=\"%g\" y=\"40\" width=\"53\" height=\"124\" rx=\"4\" fill=\"none\" stroke=\"#b03a5b\"/>\n", x + 173
    arrow(x + 190, 76, x + 190, 84)
    arrow(x + 208, 128, x + 208, 120)
    text(x + 278, 107, "middle", "same bits")
  }
  print "</svg>"
}

function place_x(epoch) { return 60 + 480 * (epoch - 1) / (epochs - 1) }
function place_y(loss) { return 20 + 200 * (1 - loss / highest) }

function curve(name, colour, i, points) {
  for (i = 1; i <= epochs; ++i) points = points sprintf("%.1f,%.1f ", place_x(i), place_y(loss[name, i]))
  printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", points, colour
  printf "<text x=\"%g\" y=\"%.1f\" fill=\"%s\">%s %.3f</text>\n", 548, place_y(loss[name, epochs]) + (name == "loss" ? 6 : -8), colour, name, loss[name, epochs]
}

function history(i) {
  begin(680, 260)
  for (i = 0; i <= highest; i += highest / 4) {
    printf "<line x1=\"60\" x2=\"540\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", place_y(i), place_y(i)
    text(52, place_y(i) + 4, "end", i)
  }
  for (i = 1; i <= epochs; ++i) text(place_x(i), 238, "middle", i)
  text(300, 255, "middle", "epoch")
  curve("loss", "#1f5fbf")
  curve("val_loss", "#c2571a")
  print "</svg>"
}

# A cell of a rank's gradients: its values, or a sum.
function cell(x, y, is_sum, words) {
  printf "<rect x=\"%g\" y=\"%g\" width=\"38\" height=\"30\" fill=\"%s\" stroke=\"#fff\"/>\n", x, y, is_sum ? "#f3c9d3" : "#d8f0d2"
  if (words != "") text(x + 19, y + 20, "middle", words)
}

# Rank r ends with the sum of block r + 1, as RingRoute says.
function ring(panel, rank, block, x, y, words) {
  begin(760, 262)
  words[0] = "each rank has its gradients"
  words[1] = "after 3 steps: a sum each"
  words[2] = "after 3 more: all sums"
  for (panel = 0; panel < 3; ++panel) {
    x = 64 + 250 * panel
    text(x + 76, 20, "middle", words[panel])
    for (rank = 0; rank < 4; ++rank) {
      y = 40 + 48 * rank
      if (panel == 0) text(14, y + 20, "start", "rank " rank)
      for (block = 0; block < 4; ++block)
        cell(x + 38 * block, y, panel == 2 || (panel == 1 && block == (rank + 1) % 4), panel == 0 ? "" : panel == 2 || block == (rank + 1) % 4 ? "sum" : "")
      if (panel < 2 && rank < 3) arrow(x + 168, y + 17, x + 168, y + 62)
    }
    if (panel < 2) {
      printf "<path d=\"M%g,201 L%g,216 L%g,216 L%g,48 L%g,48\" fill=\"none\" stroke=\"#444\" stroke-width=\"1.5\" marker-end=\"url(#head)\"/>\n", x + 168, x + 168, x + 186, x + 186, x + 172
      text(x + 176, 248, "middle", panel == 0 ? "reduce-scatter: a block a step" : "all-gather: a block a step")
    }
  }
  print "</svg>"
}

function arena(i, row, x, y, n, name, count, width, done) {
  n = split("Dense<10> Dense<128> Conv2D<32,3>", name, " ")
  split("1,290 2,769,024 320", count, " ")
  split("130 300 110", width, " ")
  for (i = 1; i <= n; ++i) gsub(/</, "\\&lt;", name[i])
  begin(760, 252)
  for (row = 0; row <= n; ++row) {
    y = 40 + 52 * row
    text(14, y + (row == 0 ? 22 : 14), "start", row == 0 ? "parameters" : "gradients after the")
    if (row > 0) text(14, y + 30, "start", "backward of " name[row])
    for (i = 1; i <= n; ++i) {
      x = 190 + (i > 1 ? width[1] + 2 : 0) + (i > 2 ? width[2] + 2 : 0)
      done = row >= i
      box(x, y, width[i], row == 0 ? "#cfe3ff" : done ? "#d8f0d2" : "#eee", "")
      if (row == 0) text(x + width[i] / 2, y - 8, "middle", name[i])
      if (row == 0) text(x + width[i] / 2, y + 22, "middle", count[i])
      else if (done) text(x + width[i] / 2, y + 22, "middle", "finished")
    }
  }
  print "</svg>"
}

# The rooms of the folders.txt: a room stands above all that it includes.
function rooms(i, n, height, row, x, width, name, words, line, level) {
  for (i = 1; i <= count; ++i) if (level_of[room[i]] > height) height = level_of[room[i]]
  begin(760, 46 * height + 54)
  for (level = height; level >= 0; --level) {
    n = 0
    for (i = 1; i <= count; ++i) if (level_of[room[i]] == level) row[++n] = room[i]
    width = (740 - 8 * (n - 1)) / n
    for (i = 1; i <= n; ++i)
      box(10 + (width + 8) * (i - 1), 8 + 46 * (height - level), width, level == height ? "#ffe3b8" : level == 0 ? "#cfe3ff" : "#d8f0d2", row[i])
  }
  print "</svg>"
}

BEGIN { FS = picture == "rooms" ? " " : "," }
picture == "rooms" {
  if (!sub(/:$/, "", $2) || $1 != "folder" || ($2 ~ /\// && $2 != "extra")) next
  room[++count] = $2
  for (i = 3; i <= NF; ++i) if ($i in level_of && level_of[$i] >= level_of[$2]) level_of[$2] = level_of[$i] + 1
  if (!($2 in level_of)) level_of[$2] = 0
  if ($2 == "extra") for (i = 1; i < count; ++i) if (level_of[room[i]] >= level_of[$2]) level_of[$2] = level_of[room[i]] + 1
  next
}
{ sub(/\r$/, "") } # as Keras ends lines
NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
{
  ++epochs
  loss["loss", epochs] = $column["loss"]
  loss["val_loss", epochs] = $column["val_loss"]
  if ($column["loss"] > highest) highest = $column["loss"]
}
END {
  highest = int(2 * highest + 1) / 2 # whole halves
  if (picture == "workers") workers()
  else if (picture == "ring") ring()
  else if (picture == "arena") arena()
  else if (picture == "rooms") rooms()
  else history()
}
