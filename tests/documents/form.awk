# awk -f form.awk DOCUMENT..., in the repository's root folder.
#
# Fails unless each relative link leads to a file, and to a heading in it; prose has at most 100
# columns (tables, code, and a line that is one long link may have more); README.md has at most
# 9,000 bytes, and a room's README.md at most 60 lines.

function complain(text) {
  print FILENAME ":" FNR ": " text
  failed = 1
}

# Characters, not bytes, of UTF-8.
function columns(line) {
  gsub(/[\200-\277]/, "", line)
  return length(line)
}

# The anchor that GitHub makes of a heading.
function anchor_of(heading) {
  sub(/^#+ +/, "", heading)
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

function is_heading_of(file, anchor, line, found, in_code) {
  found = in_code = 0
  while ((getline line < file) > 0) {
    if (line ~ /^```/) in_code = !in_code
    if (!in_code && line ~ /^#+ / && anchor_of(line) == anchor) found = 1
  }
  close(file)
  return found
}

function check_link(target, folder, file, anchor) {
  if (target ~ /^[a-z]+:/) return
  folder = FILENAME
  if (!sub(/[^\/]*$/, "", folder)) folder = ""
  anchor = index(target, "#") ? substr(target, index(target, "#") + 1) : ""
  file = target
  sub(/#.*/, "", file)
  file = file == "" ? FILENAME : folder file
  if (system("test -e '" file "'") != 0) {
    complain("the link to " target " leads nowhere")
  } else if (anchor != "" && !is_heading_of(file, anchor)) {
    complain("no heading of " file " has the anchor #" anchor)
  }
}

FNR == 1 { in_code = bytes = 0 }
{ bytes += length($0) + 1 }
FILENAME == "README.md" && bytes > 9000 && bytes - length($0) - 1 <= 9000 { complain("more than 9,000 bytes") }
FILENAME ~ /^include\/lockstep\/[a-z]+\/README\.md$/ && FNR == 61 { complain("more than 60 lines") }
/^```/ { in_code = !in_code; next }
in_code { next }
columns($0) > 100 && !/^\|/ && !/^ *(- )?\[[^]]*\]\([^)]*\)[.,]?$/ && !/^<!--/ { complain("more than 100 columns") }
{
  rest = $0
  gsub(/`[^`]*`/, "", rest) # C++'s lambdas look like links
  while (match(rest, /\]\([^)]+\)/)) {
    check_link(substr(rest, RSTART + 2, RLENGTH - 3))
    rest = substr(rest, RSTART + RLENGTH)
  }
}

END { exit failed }
