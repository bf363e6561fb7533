# awk -f reference.awk -v page=PAGE [-v uses=types|values] reference.txt, in the folder include/lockstep.
#
# Writes a page of the reference from the comments of the headers that reference.txt names for it;
# with uses, instead, the C++ that holds it true (see reference.cpp.in): each line of use, types or
# values, and for a layer its shapes and variables. Complains of each documented name that is
# neither on the page nor left out by reference.txt, and of each header of the face that the page
# lacks. Headers are laid out by clang-format, on which the reading below relies.
#
# An entry is a declaration whose comment ends with its use:
#
#   /// Use: `Dense<10, ReLU>`: Shape<20> -> Shape<10>; kernel (20, 10), bias (10). Keras: none.
#
# Only the first part must be there; without the last, Keras (for stages tf.data) has the same name.

function complain(text) {
  print "reference: " text > "/dev/stderr"
  failed = 1
}

function trim(text) {
  gsub(/^[ \t]+|[ \t]+$/, "", text)
  gsub(/[ \t]+/, " ", text)
  return text
}

# Prose as Markdown: what stands between backticks, which may be those of the line before, is left
# alone.
function prose(text, goes_on, parts, n, i, result) {
  if (!goes_on) in_backticks = 0
  n = split(text, parts, "`")
  for (i = 1; i <= n; ++i) {
    if (i > 1) in_backticks = !in_backticks
    if (!in_backticks) gsub(/</, "\\\\<", parts[i])
    result = result (i > 1 ? "`" : "") parts[i]
  }
  return result
}

function cell(text) {
  gsub(/\|/, "\\|", text)
  return text
}

# The text before the first sign outside of <>, () and {}.
function before(text, sign, i, c, depth) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (index("<({", c)) ++depth
    else if (index(">)}", c)) --depth
    else if (c == sign && depth <= 0) return substr(text, 1, i - 1)
  }
  return text
}

# --- reading a header ----------------------------------------------------------------------------

function add_field(owner, text, comment, name) {
  text = trim(text)
  sub(/;$/, "", text)
  sub(/( = )?\{\}$/, "", text)
  name = before(before(text, "="), "{")
  if (text ~ / \? |standard_name/) sub(/ = .*/, "", text)
  if (text ~ /detail::|operator/) return
  if (text ~ /^(static|using|template|friend|typedef|struct|class|enum|requires|constexpr|inline|explicit|LOCKSTEP)/ || name ~ /\(/ || name !~ / /)
    return
  fields[owner] = fields[owner] "| `" cell(text) "` | " cell(prose(trim(comment))) " |\n"
}

# Without template parameters, requirements and attributes.
function bare(text) {
  text = without_template(text)
  if (text ~ /^requires/ && match(text, /(struct|class|\[\[nodiscard\]\] auto) /))
    text = substr(text, RSTART)
  sub(/^requires *(\(([^()]|\([^()]*\))*\)|[A-Za-z:_]+(<[^<>]*>)?) /, "", text)
  sub(/^\[\[[a-z:, ]*\]\] /, "", text)
  return text
}

function declared_name(text) {
  text = bare(text)
  sub(/^inline /, "", text)
  if (text ~ /^enum class /) sub(/^enum class /, "", text)
  else if (match(text, /(^|[ >])(struct|class|concept) [A-Za-z]/)) {
    text = substr(text, RSTART + RLENGTH - 1)
  } else if (match(text, /(^|> )using [A-Za-z]/)) text = substr(text, RSTART + RLENGTH - 1)
  else {
    text = substr(text, 1, index_of_arguments(text) - 1)
    if (text ~ /^constexpr /) sub(/ = .*$/, "", text)
    sub(/^.*[ &*>]/, "", text)
  }
  match(text, /^[A-Za-z0-9_]+/)
  return substr(text, 1, RLENGTH)
}

# Where a function's arguments begin: the first parenthesis outside of <>.
function index_of_arguments(text, i, c, depth) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "<") ++depth
    else if (c == ">") --depth
    else if (c == "(" && depth <= 0) return i
  }
  return length(text)
}

function template_of(text, i, c, depth) {
  if (text !~ /^template </) return ""
  for (i = 10; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "<") ++depth
    else if (c == ">" && --depth == 0) return substr(text, 11, i - 11)
  }
  return ""
}

function without_template(text) {
  if (text ~ /^template </) text = substr(text, length(template_of(text)) + 13)
  return trim(text)
}

function kind_of(text) {
  if (text ~ /^(struct|class) /) return "type"
  if (text ~ /^enum /) return "enum"
  if (text ~ /^using /) return "alias"
  if (text ~ /^concept /) return "concept"
  return "function"
}

# Whether a declaration is of no interest: forward, a specialisation, or the body of another one.
# Constants count where they have a line of use.
function is_no_item(text, comment) {
  if (text ~ /^(inline )?constexpr/ && comment ~ /\nUse: /) return 0
  return text ~ /^(struct|class) [A-Za-z0-9_]+;$/ || text ~ /^struct [A-Za-z0-9_]+(<|::)/ ||
         text ~ /^(static_assert|LOCKSTEP|extern|inline constexpr|constexpr|friend)/ ||
         text ~ /^[A-Za-z:_<> ]*::[A-Za-z_]+\(/ || text ~ /operator/
}

# `owner`: the class, of a member function.
function add_item(name, text, comment, header, owner, plain) {
  plain = bare(text)
  if (name == "" || name == "requires" || name == owner || is_no_item(plain, comment)) return
  if (owner != "") name = prefix_of[header, owner] name
  if (name in use_of) comment = comment use_of[name] "\n"
  if (comment == "" && plain !~ /^enum / && name !~ /Options$/) return
  if (name in doc) { # of overloads, the one with a line of use
    if (comment !~ /\nUse: / || doc[name] ~ /\nUse: /) return
  } else {
    order[++items] = name
  }
  doc[name] = comment
  kinds[name] = kind_of(plain)
  declaration[name] = plain
  parameters[name] = template_of(text)
  header_of[name] = header
  title_of[name] = (owner != "" && prefix_of[header, owner] == "" ? "." : "") name
  section_of[name] = owner != "" ? section_of_class[header, owner] : section_of_header[header]
}

# Takes the comment off the end of a line, which becomes `line`.
function take_trailing(text, comment) {
  line = text
  comment = ""
  if (match(line, / *\/\/\/< /)) {
    comment = substr(line, RSTART + RLENGTH)
    line = substr(line, 1, RSTART - 1)
  }
  sub(/ +\/\/ .*$/, "", line)
  return comment
}

function read_enum(header, name, comment) {
  while ((getline line < header) > 0 && line !~ /^}/) {
    sub(/^ +/, "", line)
    if (line ~ /^\/\/\/ /) continue
    comment = take_trailing(line)
    sub(/,$/, "", line)
    if (line != "") fields[name] = fields[name] "| `" line "` | " cell(prose(comment)) " |\n"
    else sub(/ \|\n$/, " " cell(prose(comment)) " |\n", fields[name])
  }
}

# The members of `owner`: fields, or methods where it is a class whose methods the page has.
function read_members(header, owner, access, methods, member, comment, trailing, skipping) {
  while ((getline line < header) > 0 && line !~ /^}/) {
    if (line ~ /^ (public|private|protected):/) {
      access = line
      member = comment = ""
    } else if (skipping) {
      skipping = line !~ /^  }/
    } else if (access !~ /public/) {
      continue
    } else if (line ~ /^ +\/\/\/( |$)/) {
      sub(/^ +\/\/\/ ?/, "", line)
      comment = comment (comment == "" ? "" : methods ? "\n" : " ") line
    } else if (line ~ /^ *(\/\/ .*)?$/) {
      if (member == "") comment = ""
    } else {
      trailing = take_trailing(line)
      member = trim(member " " line)
      if (trailing != "") comment = comment (comment == "" ? "" : " ") trailing
      if (line !~ /[;{}]$/) continue
      if (methods && member ~ /\(/) add_item(declared_name(member), member, "\n" comment "\n", header, owner)
      else if (!methods && line ~ /;$/) add_field(owner, member, comment)
      skipping = line ~ /\{$/
      member = comment = ""
    }
  }
}

function read_header(header, comment, text, name, plain, in_body, hidden, depth) {
  hidden = depth = 0
  while ((getline line < header) > 0) {
    if (line ~ /^namespace .*\{$/) {
      ++depth
      if (line ~ /detail/ && !hidden) hidden = depth
    } else if (line ~ /^}+  \/\/ namespace/) {
      if (hidden == depth) hidden = 0
      --depth
    } else if (in_body) {
      if (line ~ (plain ~ /^concept/ ? "^ *};$" : "^}")) in_body = 0
    } else if (line ~ /^\/\/\//) {
      sub(/^\/\/\/ ?/, "", line)
      comment = comment line "\n"
    } else if (line == "" || line ~ /^(#|\/\/|\))/) {
      if (text == "") comment = ""
    } else if (depth > 0) {
      take_trailing(line)
      text = trim(text " " line)
      if (line !~ /[;{}]$/) continue
      name = declared_name(text)
      plain = bare(text)
      if (!hidden) add_item(name, text, "\n" comment, header)
      if (plain ~ /^enum class .*\{.*\};$/) {
        sub(/^[^{]*\{ */, "", plain)
        sub(/ *\};$/, "", plain)
        fields[name] = "| `" plain "` | |\n"
      } else if (line ~ /\{$/) {
        if (plain ~ /^enum /) read_enum(header, name)
        else if (plain ~ /^(struct|class) [A-Za-z0-9_]+::/) in_body = 1 # a private part
        else if (plain ~ /^struct /) read_members(header, name, "public", (header, name) in prefix_of)
        else if (plain ~ /^class /) read_members(header, name, "private", (header, name) in prefix_of)
        else in_body = 1
      }
      comment = text = ""
    }
  }
  close(header)
}

# --- writing a page ------------------------------------------------------------------------------

# What stands in the line of use of an entry: use, input, output, variables, keras.
function parse_use(name, text, place) {
  use = input = output = variables = keras = ""
  text = doc[name]
  place = index(text, "\nUse: ")
  if (!place) return 0
  text = substr(text, place + 6)
  gsub(/\n/, " ", text)
  text = trim(text)
  if (match(text, /\. Keras: .*$/)) {
    keras = substr(text, RSTART + 9)
    text = substr(text, 1, RSTART)
    sub(/\.$/, "", keras)
  }
  sub(/\.$/, "", text)
  if (text !~ /^`[^`]*`/) return 0
  use = substr(text, 2)
  text = substr(use, index(use, "`") + 1)
  use = substr(use, 1, index(use, "`") - 1)
  if (text ~ /^: .* -> /) {
    text = substr(text, 3)
    input = substr(text, 1, index(text, " -> ") - 1)
    output = substr(text, index(text, " -> ") + 4)
    if (index(output, "; ")) {
      variables = substr(output, index(output, "; ") + 2)
      output = substr(output, 1, index(output, "; ") - 1)
    }
  }
  return 1
}

# A line that its escapes have made too long, as two.
function wrapped(line, end) {
  if (length(line) <= 100) return line
  for (end = 100; end > 60 && substr(line, end, 1) != " ";) --end
  return substr(line, 1, end - 1) "\n" substr(line, end + 1)
}

function description(name, text, place, kept, lines, n, i, code, formula) {
  text = doc[name]
  place = index(text, "\nUse: ")
  if (place) text = substr(text, 1, place)
  n = split(text, lines, "\n")
  for (i = 1; i <= n; ++i) {
    if (lines[i] ~ /@code/) {
      code = 1
      sub(/:\n+$/, ".\n", kept)
    }
    if (!code) {
      if (!formula && lines[i] ~ /^   ?[^ 0-9]/ && lines[i - 1] !~ /^ *([0-9]+\.|-) /) {
        formula = 1
        kept = kept "```text\n"
      } else if (formula && lines[i] ~ /^[^ ]/) {
        formula = 0
        sub(/\n+$/, "\n", kept)
        kept = kept "```\n\n"
      }
      kept = kept (formula || lines[i] ~ /^    / ? lines[i] : wrapped(prose(lines[i], lines[i] != ""))) "\n"
    }
    if (lines[i] ~ /@endcode/) code = 0
  }
  gsub(/^\n+|\n+$/, "", kept)
  if (formula) kept = kept "\n```"
  if (kept == "" && kinds[name] == "alias") {
    kept = declaration[name]
    sub(/^using [A-Za-z0-9]+ = /, "", kept)
    sub(/;$/, "", kept)
    kept = "`" kept "`"
  }
  return kept
}

# Up to a stop or colon outside of parentheses, or a formula.
function first_sentence(text, end, depth) {
  sub(/,?\n+```.*/, "", text)
  gsub(/\n/, " ", text)
  sub(/^A function for map: /, "", text)
  for (end = 1; end <= length(text); ++end) {
    if (substr(text, end, 1) == "(") ++depth
    if (substr(text, end, 1) == ")") --depth
    if (depth == 0 && substr(text, end, 2) ~ /^[.:]( |$)/) break
  }
  return cell(substr(text, 1, end - 1))
}

# The fields of a type, or of what it is another name for.
function fields_of(name, base) {
  if (name in fields) return fields[name]
  base = declaration[name]
  if (base ~ /^using / && match(base, /detail::[A-Za-z0-9]+/)) {
    base = substr(base, RSTART + 8, RLENGTH - 8)
    if (base in fields) return fields[base]
  }
  return ""
}

function signature(name, text) {
  text = declaration[name]
  sub(/^inline /, "", text)
  sub(/\) (const )?(noexcept )?\{( .*\})?$/, ")", text)
  sub(/;$| = \[\] \{$/, "", text)
  return text
}

function write_entry(name, title, header, text, part, home, mentioned, i) {
  header = header_of[name]
  parse_use(name)
  print "\n### " title "\n"
  text = description(name)
  if (text != "") print text "\n"
  print "| | |\n|---|---|"
  print "| use | `" cell(use) "` |"
  if (input != "") print "| shapes | `" input "` -> `" output "` |"
  if (variables != "") print "| variables | " variables " |"
  if (kinds[name] == "function") print "| signature | `" cell(signature(name)) "` |"
  else if (parameters[name] != "") print "| parameters | `" cell(parameters[name]) "` |"
  printf "%s", fields_of(name)
  # The options that belong to it.
  mentioned = parameters[name] " " declaration[name] " " name "Options"
  sub(/Strategy$/, "Options", name)
  mentioned = mentioned " " name
  for (i = 1; i <= items; ++i) {
    part = order[i]
    if (part in is_entry || part in is_part || part in left_out || !(part in fields)) continue
    if ((" " mentioned " ") !~ ("[^A-Za-z]" part "[^A-Za-z]") || kinds[part] == "enum") continue
    home = part
    sub(/Options$/, "", home)
    if (!(part in table_at)) table_at[part] = home in is_entry ? title_of[home] : title
    if (table_at[part] != title) {
      print "| **`" part "`** | those of [`" table_at[part] "`](#" anchor(table_at[part]) ") |"
      continue
    }
    print "| **`" part "`** | " cell(first_sentence(description(part))) " |"
    printf "%s", fields[part]
  }
  if (keras != "") print "| Keras | " keras " |"
  print "| header | `lockstep/" header "` |"
}

function anchor(text) {
  text = tolower(text)
  gsub(/[^a-z0-9_-]/, "", text)
  return text
}

function write_page(i, j, name, any, line) {
  print "# " title "\n"
  print "<!-- Written by `cmake --build BUILD --target reference` from the comments of the headers. -->\n"
  for (i = 1; i <= words; ++i) {
    line = line (line == "" ? "" : " ") word[i]
    if (i == words || length(line " " word[i + 1]) > 100) {
      print line
      line = ""
    }
  }
  print "\n| | |\n|---|---|"
  for (j = 1; j <= sections; ++j)
    for (i = 1; i <= items; ++i) {
      name = order[i]
      if (name in is_entry && section_of[name] == j)
        print "| [`" title_of[name] "`](#" anchor(name) ") | " first_sentence(description(name)) " |"
    }
  for (j = 1; j <= sections; ++j) {
    any = 0
    for (i = 1; i <= items; ++i) {
      name = order[i]
      if (!(name in is_entry) || section_of[name] != j) continue
      if (!any++ && section[j] != "") print "\n## " section[j]
      write_entry(name, title_of[name])
    }
  }
  any = 0
  for (i = 1; i <= items; ++i) {
    name = order[i]
    if (!(name in fields) || (kinds[name] != "enum" && !(name in is_part))) continue
    if (!any++) print "\n## Types of options"
    print "\n### " name "\n"
    if (description(name) != "") print description(name) "\n"
    print "| " (kinds[name] == "enum" ? "value" : "field") " | |\n|---|---|"
    printf "%s", fields[name]
  }
}

function write_uses(i, name, only) {
  name = page
  gsub(/[^a-z]/, "_", name)
  print "namespace " name " {"
  for (i = 1; i <= items; ++i) {
    name = order[i]
    if (!(name in is_entry)) continue
    parse_use(name)
    print "// " title_of[name] ", " header_of[name]
    only = header_of[name] ~ /^extra\/mpi/ ? "defined(LOCKSTEP_HAS_MPI)" : name ~ /image_folder/ ? "defined(LOCKSTEP_HAS_PNG)" : ""
    if (only != "") print "#if " only
    if (input != "") print "static_assert(is_as_said<" use ", " input ", " output ">(\"" variables "\"));"
    else if (uses == "types") print "static_assert(Layer<" use ", Shape<20>>);"
    else print "[[maybe_unused]] void use_" i "() {\n  static_cast<void>(" use ");\n}"
    if (only != "") print "#endif"
  }
  print "}"
}

$1 == "page" { current = $2; if (current == page) { title = $0; sub(/^page [^ ]+ /, "", title) } next }
current != page || /^#/ || /^$/ { next }
$1 == "text" { for (i = 2; i <= NF; ++i) word[++words] = $i; next }
$1 == "section" { sub(/^section ?/, ""); section[++sections] = $0; next }
$1 == "use" { name = $2; sub(/^use [^ ]+ /, ""); use_of[name] = "\nUse: " $0 "."; next }
$1 == "part" { for (i = 2; i <= NF; ++i) is_part[$i] = 1; next }
$1 == "without" { for (i = 2; i <= NF; ++i) left_out[$i] = 1; next }
$1 == "face" { face = $2; next }
$1 == "header" || $1 == "members" {
  name = $1 == "members" ? $3 : $2
  if (!sections) sections = 1
  if ($1 == "members") {
    prefix_of[name, $2] = $4
    section_of_class[name, $2] = sections
  }
  if (name in section_of_header) next
  section_of_header[name] = sections
  headers[++header_count] = name
}

END {
  if (title == "") complain("reference.txt has no page " page)
  for (i = 1; i <= header_count; ++i) read_header(headers[i])
  if (face != "") {
    while ((getline line < face) > 0)
      if (match(line, /"lockstep\/[a-z0-9_\/]+\.hpp"/)) {
        name = substr(line, RSTART + 10, RLENGTH - 11)
        if (name != "core/config.hpp" && !(name in section_of_header) && !(name in left_out))
          complain(page " lacks the header " name " of " face)
      }
    close(face)
  }
  for (i = 1; i <= items; ++i) {
    name = order[i]
    if (parse_use(name)) is_entry[name] = 1
    else if (!(name in left_out) && !(name in is_part) && name !~ /Options$/ && kinds[name] != "enum" && kinds[name] != "concept")
      complain(page " lacks " name ": its comment in " header_of[name] " has no line of use")
  }
  for (name in left_out)
    if (name !~ /\.hpp$/ && (!(name in doc) || name in is_entry)) complain(page ": reference.txt leaves out " name ", which is not left out")
  if (uses) write_uses()
  else write_page()
  exit failed
}
