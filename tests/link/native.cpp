// Compiled with -march=native.
#include "link/train.hpp"

double train_in_native();
double train_in_native() { return train(); }
