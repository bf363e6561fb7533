#include "link/train.hpp"

double train_in_other();
double train_in_other() { return train(); }
