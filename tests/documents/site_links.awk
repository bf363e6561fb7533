# ls *.html | awk -f site_links.awk, in the site's folder.
#
# Fails unless each link of each page leads to a file of the site, and to a place in it; where a
# list names `detail` or Eigen; and where the start page lacks a door or a part its example.

function complain(text) {
  print text
  ++failures
}

# What "name"="value" of a tag of the line is, one after the other.
function next_value(pattern, value) {
  if (!match(rest, pattern)) return 0
  value = substr(rest, RSTART, RLENGTH)
  rest = substr(rest, RSTART + RLENGTH)
  sub(/^[^"]*"/, "", value)
  sub(/"$/, "", value)
  found = value
  return 1
}

function is_file(path) {
  if (!(path in known)) known[path] = system("test -f '" path "'") == 0
  return known[path]
}

{
  page = $0
  known[page] = 1
  ++pages
  is_list = page ~ /^(annotated|classes|hierarchy|concepts|namespaces|files|topics|modules|pages|functions.*|namespacemembers.*)\.html$/
  while ((getline line < page) > 0) {
    rest = line
    while (next_value("(id|name)=\"[^\"]*\"")) place[page "#" found]
    rest = line
    while (next_value("(href|src)=\"[^\"]*\"")) {
      if (found ~ /^[a-z]+:/ || found == "#") continue
      sub(/\?.*/, "", found)
      if (found ~ /^#/) found = page found
      if (!(found in from)) {
        from[found] = page
        ++targets
      }
      ++links
    }
    if (is_list && line ~ /(::|>)(detail|Eigen)(<|::)/) complain(page ": lists " line)
    if (page == "index.html" && line ~ /class="door"/) ++doors
    if (page == "structlockstep_1_1Dense.html" && line ~ /class="fragment"/) has_example = 1
  }
  close(page)
}

END {
  for (link in from) {
    file = link
    sub(/#.*/, "", file)
    if (!is_file(file)) complain(from[link] ": link to " link ", which is not there")
    else if (link ~ /#/ && file ~ /\.html$/ && !(link in place)) complain(from[link] ": " file " has no place " substr(link, index(link, "#")))
  }
  if (doors != 3) complain("index.html: " doors + 0 " doors in place of 3")
  if (!has_example) complain("structlockstep_1_1Dense.html: no example")
  printf "%d pages, %d links to %d places: %d failures\n", pages, links, targets, failures
  exit failures > 0
}
