#define main train
#include "../program.cpp"
