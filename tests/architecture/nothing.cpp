// A program that uses nothing of what it includes.
#include <lockstep/lockstep.hpp>

int main() {}
