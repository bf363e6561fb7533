// The program of all consumer projects.

#include "../link/train.hpp"

int main() { return train() < 0.6 ? 0 : 1; }
