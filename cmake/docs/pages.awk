# awk -v root=ROOT -v files=LIST -f pages.awk DOCUMENT.md: the document as a page for Doxygen.
#
# GitHub's links work there too: each page and heading gets a label, and a link to a document, a
# heading, a header or an example leads to its page. The path of any other file is appended to LIST,
# and the link leads to its copy below files/. A link to a
# folder leads to its README, or stays as text.

# What make.cmake calls a page, too: examples/how_to/text.md is how_to_text.
function page_of(path) {
  if (path == "README.md") return "overview"
  if (path == "include/lockstep/README.md") return "architecture"
  if (path ~ /^include\/lockstep\/.*README\.md$/) sub(/^include\/lockstep/, "room", path)
  if (path ~ /REFERENCE\.md$/) { sub(/^include\/lockstep/, "reference", path); sub(/\/REFERENCE/, "", path) }
  sub(/^(examples|include\/lockstep|cmake)\//, "", path)
  sub(/(\/?README)?\.md$/, "", path)
  if (path == "") path = "guides"
  gsub(/\//, "_", path)
  return tolower(path)
}

# The anchor that GitHub makes of a heading.
function anchor_of(heading) {
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

# a/b/../c is a/c.
function plain(path) {
  while (sub(/[^\/.]+[^\/]*\/\.\.\//, "", path)) {}
  return path
}

function exists(path, line) { return (getline line < path) >= 0 }

function link(label, target, path, anchor) {
  if (target ~ /^[a-z]+:/) return "[" label "](" target ")"
  anchor = target
  if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
  sub(/#.*/, "", target)
  path = target == "" ? document : plain(folder target)
  gsub(/\n/, " ", label)
  if (exists(root "/" path "/README.md")) path = path "/README.md"
  if (path ~ /\.md$/) {
    path = page_of(path)
    gsub(/[`"]/, "", label) # Doxygen would show them
    if (anchor == "" && is_parent && !(path in children)) {
      children[path]
      if (path ~ is_parent) return "@subpage " path " \"" label "\""
    }
    return "[" label "](@ref " path (anchor == "" ? "" : "-" anchor) ")"
  }
  if (path ~ /^(include\/.*\.hpp|examples\/[a-z]+\.cpp)$/ && path !~ /\/detail\//) {
    gsub(/[`"]/, "", label)
    if (path ~ /\/concepts\.hpp$/ && label ~ /^[A-Z][A-Za-z]+$/) return "[" label "](@ref lockstep::" label ")"
    sub(/^(include|examples)\//, "", path)
    return "[" label "](@ref " path ")"
  }
  if (system("test -f '" root "/" path "'") != 0) return label
  print path >> files
  return "<a href=\"files/" path ".txt\">" html(label) "</a>"
}

function html(label) {
  if (gsub(/^`|`$/, "", label)) label = "<code>" label "</code>"
  return label
}

# Prose as Doxygen reads it: no escapes in quotation marks.
function plain_prose(text) {
  gsub(/\\</, "\\&lt;", text)
  return text
}

# A paragraph with its links, where they are not in `code`, and what Doxygen takes for something
# else: a quotation mark in `code`, and **`code`**.
function with_links(line, result, rest, label, i) {
  result = ""
  while (match(line, /\*\*([A-Za-z][^*`]*)?`[^*`]+`[^*`]*\*\*/))
    line = substr(line, 1, RSTART - 1) "<b>" substr(line, RSTART + 2, RLENGTH - 4) "</b>" substr(line, RSTART + RLENGTH)
  while (match(line, /`[^`]*`|!?\[(`[^`]*`|[^]`])*\]\([^)]+\)/)) {
    rest = substr(line, RSTART, RLENGTH)
    result = result plain_prose(substr(line, 1, RSTART - 1))
    line = substr(line, RSTART + RLENGTH)
    if (rest ~ /^`/) { result = result (rest ~ /'/ ? "`" rest "`" : rest); continue }
    i = match(rest, /\]\([^()]+\)$/)
    label = substr(rest, 1, i - 1)
    rest = substr(rest, i + 2, length(rest) - i - 2)
    if (sub(/^!\[/, "", label)) {
      sub(/.*\//, "", rest)
      result = result "<img src=\"" rest "\" alt=\"" label "\"/>"
    } else {
      result = result link(substr(label, 2), rest)
    }
  }
  return result plain_prose(line)
}

BEGIN {
  document = substr(ARGV[1], length(root) + 2)
  page = page_of(document)
  folder = document
  if (!sub(/[^\/]*$/, "", folder)) folder = ""
  if (page == "guides") is_parent = "^(how_to|cluster)_"
  if (page == "architecture") is_parent = "^(room_[a-z]+|words|numerics)$"
  if (page ~ /^room_/) is_parent = "^" page "_"
  while ((getline line < ARGV[1]) > 0) {
    if (line ~ /^ *```/) in_code = !in_code
    if (!in_code && line ~ /^## /) ++sections
  }
  close(ARGV[1])
  in_code = 0
}

# A link may be broken across lines: a paragraph is put together first.
function flush_text() {
  if (text != "") printf "%s", with_links(text)
  text = ""
}

/^ *```/ { flush_text(); in_code = !in_code; print; next }
in_code { print; next }
/^<!--.*-->$/ { flush_text(); print ""; next }
/^#+ / {
  flush_text()
  heading = $0
  sub(/^#+ +/, "", heading)
  if (/^# /) {
    if (page == "overview") $0 = "# What lockstep is"
    print $0 " {#" page "}" (sections > 2 && page !~ /^reference_/ ? "\n\n[TOC]" : "")
    next
  }
  label = page "-" anchor_of(heading)
  if (++times[label] > 1) label = label "-" (times[label] - 1)
  if (/^## /) has_section = 1
  is_alias = 0
  if (!has_section) sub(/^###/, "##") # Doxygen wants no gap between levels
  print $0 " {#" label "}"
  next
}
page ~ /^reference_/ && /^`[^`]+`$/ { is_alias = 1 }
# In a reference: where the header and all members of an entry are. Another name of something else
# (the entry's text is that) has none.
page ~ /^reference_/ && /^\| header \| `[^`]*` \|$/ {
  sub(/`/, "@ref ")
  sub(/`/, "")
  if (heading ~ /^[A-Za-z_0-9]+$/ && !is_alias) $0 = $0 "\n| declaration | @ref lockstep::" heading " |"
}
/^$/ { text = text "\n"; flush_text(); next }
{ text = text $0 "\n" }

# Rooms in this one to which nothing above leads.
END {
  flush_text()
  if (page ~ /^room_/) while ((("ls " root "/" folder "*/README.md 2>/dev/null") | getline line) > 0) {
    line = substr(line, length(root) + 2)
    if (exists(root "/" line) && !(page_of(line) in children)) print "\n@subpage " page_of(line)
  }
}
