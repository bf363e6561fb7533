// All of the library as one source, for a program that is built without CMake:
//   g++ -std=c++20 -O2 -c lockstep.cpp
//   g++ -std=c++20 -O2 -D LOCKSTEP_COMPILED trainer.cpp lockstep.o
// The first line is needed once, and the second takes seconds.
#include "lockstep/src/kernels.cpp"  // first: it has its own way with instances

#include "lockstep/src/data.cpp"
#include "lockstep/src/files.cpp"
#include "lockstep/src/parts.cpp"
#include "lockstep/src/training.cpp"
#include "lockstep/src/workers.cpp"
