# ls *.html | awk -f site_text.awk, in the site's folder.
#
# Fails where a page shows marks that should have become a form of its text: stars, backticks,
# backslashes, tags, a dash of two signs that has become one, and members that are no options.

function complain(what) {
  print page ": " what ": " substr(line, RSTART > 60 ? RSTART - 60 : 1, 140)
  ++failures
}

/_source\.html$|-example\.html$/ { next }
{
  page = $0
  ++pages
  in_fragment = 0
  while ((getline line < page) > 0) {
    if (match(line, /[A-Za-z]\\&lt;/)) complain("a backslash in code")
    if (line ~ /<(div class="fragment"|pre|script)/) in_fragment = 1
    is_code = in_fragment
    if (line ~ /<\/(pre|script)>|<!-- fragment -->/) in_fragment = 0
    if (is_code || line ~ /class="(line|ttc|ttdeci|memname|memItem|param)/) continue
    if (match(line, /\*\*(<code>|[A-Z])/)) complain("stars")
    if (match(line, /\\(ilinebr|ref|subpage|code|endcode|[<>|#]|&[lg]t;)/)) complain("a backslash")
    if (match(line, /&lt;\/?(t[dr]|div|p|b|code)( [^&]*)?&gt;/)) complain("a tag")
    if (match(line, /(^|[ >])(&ndash;|–)[a-z]/)) complain("a dash in place of two")
    if (page ~ /^reference_/ && match(line, /<code>std::(mutex|atomic|thread|shared_ptr)/)) complain("a private member")
    if (match(line, /`/)) complain("a backtick")
  }
  close(page)
}

END {
  printf "%d pages: %d failures\n", pages, failures
  exit failures > 0 || pages == 0
}
