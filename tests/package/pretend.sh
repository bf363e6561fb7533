#!/bin/sh
# A compiler launcher for tests of what is built and how: it writes empty objects, at once.
compiler=$1
while [ "$1" != -o ]; do shift; done
exec "$compiler" -x c++ -c /dev/null -o "$2" -MD -MF "$2.d"
