#include "../program.cpp"
