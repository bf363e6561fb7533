#!/usr/bin/awk -f
# rooms.awk FOLDERS CHANGED TESTS: which rooms' tests a change concerns, those that have changed
# first, then those above them, and why: "<room>: <reason>". FOLDERS is folders.txt, CHANGED a list
# of files, TESTS of the folders in tests/.

FNR == 1 { ++input }

# What a room includes, in the order of the table. (A room is a folder without what is below it.)
input == 1 && $1 == "folder" {
  room = $2
  sub(/[/:].*/, "", room)
  if (!(room in known)) rooms[++count] = room
  known[room] = 1
  for (i = 3; i <= NF; ++i) {
    other = $i
    sub(/\/.*/, "", other)
    if (other != room) uses[room, other] = 1
  }
}

input == 2 && /[.][hic]pp$/ && split($0, part, "/") > 2 {
  if (part[1] == "include" && part[3] in known && !(part[3] in header)) header[part[3]] = $0
  if (part[1] == "tests" && part[2] != "cmake" && !(part[2] in test)) test[part[2]] = $0
}

input == 3 {
  sub(/\/$/, "")
  if (!($0 in known)) others[++count_others] = $0
  has_tests[$0] = 1
}

function tell(room, reason) {
  if (room in has_tests && !(room in told)) print room ": " reason
  told[room] = 1
}

END {
  for (i = 1; i <= count; ++i) {
    room = rooms[i]
    if (room in header) tell(room, header[room] " has changed")
    else if (room in test) tell(room, test[room] " has changed")
  }
  for (i = 1; i <= count; ++i) {
    room = rooms[i]
    below = ""
    for (j = 1; j < i; ++j)
      if ((room, rooms[j]) in uses && rooms[j] in dirty) below = rooms[j]
    if (below != "") tell(room, "it is above " below)
    if (below != "" || room in header) dirty[room] = 1
  }
  for (i = 1; i <= count_others; ++i) {
    room = others[i]
    if (room !~ /^(integration|lockstep)$/) continue
    if (room in test) tell(room, test[room] " has changed")
    else for (any in header) { tell(room, "headers have changed"); break }
  }
}
