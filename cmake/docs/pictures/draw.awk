# awk -v picture=workers -f draw.awk history.csv >workers.svg
# awk -v picture=history -f draw.awk history.csv >history.svg
#
# The pictures of the README, as SVG: two workers in lockstep, and the losses that CSVLogger has
# written. The target `pictures` draws both; a test compares.

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

BEGIN { FS = "," }
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
  else history()
}
