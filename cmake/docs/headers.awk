# awk -v root=ROOT -f headers.awk HEADER: the header as Doxygen is to see it, line for line.
#
# It has no namespace of the ABI and no `detail`, neither as a namespace nor as a base, and nothing
# of Eigen; what it declares is in the group of its room, made in make.cmake. The comment on top
# is the file's, `Use: ` is a paragraph with a line of code. Headers are laid out by clang-format,
# on which the reading below relies.

BEGIN {
  room = ARGV[1]
  sub(/^.*\/include\/lockstep\//, "", room)
  while (sub(/\/?[^\/]*$/, "", room) && room != "" && (getline line < (root "/include/lockstep/" room "/README.md")) <= 0) {}
  if (room != "") group = "in_" room
  gsub(/\//, "_", group)
}

FNR == 1 && /^\/\/ / { on_top = 1; sub(/^\/\/ /, "/// @header ") }
FNR > 1 && on_top && !sub(/^\/\/ /, "/// ") { on_top = 0 }

# Left out: `detail`, Eigen, and the hints of lockstep.hpp, which declares what others have.
/^namespace (detail|Eigen) \{$/ || /^namespace lockstep \{ .*LOCKSTEP_ABI \{ namespace detail \{$/ ||
(FILENAME ~ /lockstep\/lockstep\.hpp$/ && /^namespace lockstep \{/) { leaves_out = 1 }
leaves_out {
  line = $0
  gsub(/\\./, "", line)
  gsub(/"[^"]*"|'.'/, "", line)
  sub(/\/\/.*/, "", line)
  depth += gsub(/\{/, "", line) - gsub(/\}/, "", line)
  if (depth == 0) leaves_out = 0
  print ""
  next
}

/^namespace lockstep \{ inline namespace LOCKSTEP_ABI \{/ {
  sub(/ inline namespace LOCKSTEP_ABI \{/, "")
  print $0 (group == "" ? "" : " /** @addtogroup " group "\n@{ */")
  next
}
/^\}\}\}?  \/\/ namespace lockstep/ { print (group == "" ? "" : "/** @} */ ") (/^}}}/ ? "}}" : "}"); next }

# Bases of `detail`.
/^(struct|class) .* : (public )?detail::.*\{/ { sub(/ : (public )?detail::[^{]*\{/, " {") }
/^    : (public )?detail::/ && before ~ /^(struct|class) [A-Za-z0-9_]+( final)?$/ { in_bases = 1 }
{ before = $0 }
in_bases {
  if (!/\{(\};)?$/) { print ""; next }
  in_bases = 0
  sub(/^.*\{/, "{")
}

# A line of use that is several lines becomes one.
/^ *\/\/\/ Use: `[^`]*$/ {
  while (gsub(/`/, "&") % 2 == 1 && (getline line) > 0) {
    sub(/^ *\/\/\//, "", line)
    $0 = $0 line
    ++joined
  }
}
/^ *\/\/\/ Use: `[^`]+`(: |\. |\.$|, |$)/ {
  match($0, /`[^`]+`/)
  code = substr($0, RSTART + 1, RLENGTH - 2)
  rest = substr($0, RSTART + RLENGTH)
  if (rest !~ /^, /) {
    sub(/^[:.] */, "", rest)
    sub(/Use: .*/, "")
    print $0 "@use @code{.cpp}" code "@endcode " rest
    for (; joined > 0; --joined) print "///"
    next
  }
}
{ sub(/\/\/\/ Use: /, "/// @use ") }

# Doxygen wants the numbers of a list on the left.
/^ *\/\/\/ +[0-9]+\. / { match($0, /\/\/\/ +/); $0 = substr($0, 1, RSTART + 2) " " substr($0, RSTART + RLENGTH) }
{ print }
joined { for (; joined > 0; --joined) print "///" }
